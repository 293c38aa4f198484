"""A checkpoint's own tokenizer, through the `tokenizers` library and nothing else of Hugging Face's."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from t1cli.errors import Refused
from t1cli.terminal.trajectory.byte_level import byte_level_text
from t1cli.terminal.trajectory.text_space import TextSpace

if TYPE_CHECKING:
    import tokenizers

TOKENIZER_FILE = "tokenizer.json"


class CheckpointTokenizer:
    """Text and ids of one checkpoint."""

    def __init__(self, tokenizer: tokenizers.Tokenizer) -> None:
        self._tokenizer = tokenizer
        # Plain text that spells a control token stays plain text.
        tokenizer.encode_special_tokens = True
        added = tokenizer.get_added_tokens_decoder()
        self._controls = {token.content: identifier for identifier, token in added.items() if token.special}
        self._added = {identifier: token.content for identifier, token in added.items()}

    @property
    def controls(self) -> Mapping[str, int]:
        """The special tokens by name. No text ever encodes to one of them."""
        return self._controls

    @cached_property
    def text(self) -> TextSpace | None:
        """What single ids say, for the assembly of trajectories; None for a vocabulary that is not byte-level."""
        if type(self._tokenizer.decoder).__name__ != "ByteLevel":
            return None
        specials = frozenset(self._controls.values())
        return byte_level_text(self._tokenizer.id_to_token, added=self._added, special_ids=specials)

    def encode(self, text: str) -> list[int]:
        """Ids of plain text, without anything put before or after it."""
        return list(self._tokenizer.encode(text, add_special_tokens=False).ids)

    def decode(self, ids: tuple[int, ...]) -> str:
        """Text of ids, special tokens by their names, bytes that are no UTF-8 as U+FFFD."""
        return str(self._tokenizer.decode(list(ids), skip_special_tokens=False))


@lru_cache(maxsize=4)
def checkpoint_tokenizer(directory: Path) -> CheckpointTokenizer:
    """The tokenizer of a checkpoint directory. Raises Refused when it cannot be loaded."""
    path = directory / TOKENIZER_FILE
    if not path.is_file():
        raise Refused(
            f"no {TOKENIZER_FILE}, so no text can be encoded as the model knows it",
            where=str(directory),
            hint="model.checkpoints.hf must be a directory that every rollout node sees, with the fast tokenizer",
        )
    try:
        from tokenizers import Tokenizer
    except ImportError as error:
        raise Refused(
            "the library `tokenizers` is missing",
            where=str(path),
            hint="pip install 't1cli[chat]' on the rollout nodes",
        ) from error
    try:
        return CheckpointTokenizer(Tokenizer.from_file(str(path)))
    except Exception as error:
        # The library raises bare Exceptions for files that it cannot read.
        raise Refused(f"no readable tokenizer: {error}", where=str(path)) from error
