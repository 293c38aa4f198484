"""The tokenizer of family `t1-tiny`: whole words where they are known, bytes everywhere else."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from functools import lru_cache

from t1cli.terminal.tasks.generator import PATTERNS, WORDS

SPECIAL_TOKENS = ("<|pad|>", "<|task|>", "<|assistant|>", "<|observation|>", "<|end|>")
"""Ids 0 to 4. No text ever encodes to one of them."""

_SHELL_PIECES = (
    *("echo", "mkdir", "cp", "mv", "rm", "cat", "wc", "head", "tail", "grep", "sort", "chmod", "sed", "ls", "touch"),
    *(" -p", " -l", " -n", " -i", " s/", "/g", ".txt", " > ", " >> ", " < ", ". ", ".\n", "exit code "),
    *("bash: line 1: ", "sh: 1: ", ": command not found", ": No such file or directory", ": Permission denied"),
    *("cannot stat ", "cannot remove ", "cannot create directory ", "cannot access ", "cannot open ", ": File exists"),
    *(": missing operand", "missing destination file operand", ": Is a directory", ": Not a directory"),
    *("400", "440", "444", "600", "640", "700", "750", "755", "for reading", "Syntax error: ", "unexpected"),
)
"""Shell words, what the generated tasks' commands need, and what the shell commonly answers."""


class Tokenizer:
    """Greedy longest match over words, 256 byte tokens as the fallback; `decode` inverts `encode` on every text."""

    def __init__(self) -> None:
        pieces = sorted({*_SHELL_PIECES, *WORDS, *_sentence_words(PATTERNS)})
        self._piece_of: tuple[bytes, ...] = (
            *(b"" for _ in SPECIAL_TOKENS),
            *(bytes([value]) for value in range(256)),
            *(piece.encode() for piece in pieces),
        )
        self._id_of = {piece: token for token, piece in enumerate(self._piece_of) if piece}
        longest_first = sorted((piece.encode() for piece in pieces), key=len, reverse=True)
        self._pattern = re.compile(b"|".join(map(_whole_word, longest_first)) + b"|.", re.DOTALL)

    @property
    def size(self) -> int:
        """Ids in use: 0 to size - 1."""
        return len(self._piece_of)

    @property
    def fingerprint(self) -> str:
        """Changes whenever any id means something else; stored with every checkpoint."""
        return hashlib.sha256(repr((SPECIAL_TOKENS, self._piece_of)).encode()).hexdigest()[:16]

    def encode(self, text: str) -> list[int]:
        """Ids of a text; lone surrogates stand for the raw bytes they escape (PEP 383)."""
        return self.encode_bytes(text.encode("utf-8", "surrogateescape"))

    def encode_bytes(self, data: bytes) -> list[int]:
        """Ids of any bytes."""
        return [self._id_of[match.group()] for match in self._pattern.finditer(data)]

    def decode(self, ids: Iterable[int]) -> str:
        """Text of ids; special tokens and ids out of use are empty, bytes that are no UTF-8 become U+FFFD."""
        return self.decode_bytes(ids).decode("utf-8", "replace")

    def decode_bytes(self, ids: Iterable[int]) -> bytes:
        """The exact bytes of ids."""
        return b"".join(self._piece_of[token] for token in ids if 0 <= token < len(self._piece_of))

    def special(self, name: str) -> int:
        """Id of a special token such as `<|end|>`."""
        return SPECIAL_TOKENS.index(name)


@lru_cache(maxsize=1)
def tokenizer() -> Tokenizer:
    """The one tokenizer of this family."""
    return Tokenizer()


def _whole_word(piece: bytes) -> bytes:
    """A piece that ends in a letter matches only where the word ends, so that ` a` leaves ` aspen` whole."""
    return re.escape(piece) + (b"(?![A-Za-z])" if piece[-1:].isalpha() else b"")


def _sentence_words(patterns: dict[str, tuple[str, ...]]) -> set[str]:
    """Words of the fixed sentences: the first as it is, the others with the space before them."""
    words: set[str] = set()
    for sentence in (sentence for sentences in patterns.values() for sentence in sentences):
        fixed = re.sub(r"\{\w+\}", "\0", sentence)
        words.update(re.findall(r"^\w+", fixed))
        words.update(re.findall(r" \w+", fixed))
    return words
