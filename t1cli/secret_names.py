"""Which names hold secrets: the one definition behind everything that hides, refuses or leaves out a value."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

_SECRET_WORDS: Final = re.compile(
    r".*(?:token|secrets?|password|passwd|passphrase|credentials?|apikey)|pwd|auth|authorization|bearer|cookie|jwt|pat"
    r"|keys?|(?:access|private|secret)key"
)
# What stands beside `key` or `token` when it is a column, a vocabulary entry or a tensor dimension.
_HARMLESS_BEFORE: Final = re.compile(
    r"input|label|metadata|reward|eval|tool|multimodal|routing|sort|group|task|query|public|eod|eos|bos|pad|fim|middle"
    r"|prefix|suffix|moe|first|last|per"
)
_NOT_SECRET: Final = frozenset({"PWD"})
"""The shell's working directory is no password."""
_HARMLESS_AFTER: Final = re.compile(r"dispatcher|drop|layer|value|heads?|ids?|loss|count|dim|path|fingerprint|file")
_WORDS: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")


def names_a_secret(name: str) -> bool:
    """Whether a variable, option or dotted key with this name holds a secret (`WANDB_API_KEY`, not `max_tokens`)."""
    if name in _NOT_SECRET:
        return False
    words = [word.lower() for word in _WORDS.findall(name.rsplit(".", 1)[-1])]
    for index, word in enumerate(words):
        if not _SECRET_WORDS.fullmatch(word):
            continue
        before = words[index - 1] if index else ""
        after = words[index + 1] if index + 1 < len(words) else ""
        vocabulary_or_column = word in ("key", "keys", "token") and bool(
            _HARMLESS_BEFORE.fullmatch(before) or _HARMLESS_AFTER.fullmatch(after)
        )
        if not vocabulary_or_column:
            return True
    return False


def secrets_of(environment: Mapping[str, str]) -> tuple[str, ...]:
    """Names of an environment's variables that hold a secret, in order; an empty one holds none."""
    return tuple(sorted(name for name, value in environment.items() if value and names_a_secret(name)))
