"""Which rule of a harness or chat template kept a prompt from continuing a history exactly. For people: no gate."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from t1cli.terminal.trajectory.relations import GLUE_IDS, History, common_prefix
from t1cli.terminal.trajectory.row import Ids
from t1cli.terminal.trajectory.text_space import TextSpace

_MOST_IDS: Final = 4096
"""Ids of a reply that are looked at."""
_MERGED_IDS: Final = 2
"""Differences so close to the reply's end come from its last characters and the next message's first."""
UNKNOWN: Final = "other ids; without the tokenizer nobody can say why"


@dataclass(frozen=True)
class ReplySpan:
    """Where a history holds one turn's reply: ids start to end."""

    turn: int
    start: int
    end: int


@dataclass(frozen=True)
class Difference:
    """What the last reply said, what the prompt says in its place, and where they part."""

    told: str
    retold: str
    """New messages included."""
    common_ids: int
    ids_to_reply: int
    """Ids from the first different one to the last reply's first; negative inside the reply."""
    ids_to_end: int
    """Ids from the first different one to the history's end."""
    after_reply: bool
    """Whether the first difference lies between two replies, in what was said to the model."""


def rule_of(history: History, spans: Sequence[ReplySpan], prompt: Ids, text: TextSpace | None) -> str:
    """The first rule that explains why `prompt` does not continue `history`, whose replies lie at `spans`."""
    if text is None:
        return UNKNOWN
    common, last = common_prefix(history.ids, prompt), spans[-1]
    difference = Difference(
        told="".join(history.pieces(text, last.start)[:_MOST_IDS]),
        retold="".join(text.pieces(prompt[last.start : last.start + 2 * _MOST_IDS])),
        common_ids=common,
        ids_to_reply=last.start - common,
        ids_to_end=len(history.ids) - common,
        after_reply=common >= spans[0].end and not any(span.start <= common < span.end for span in spans),
    )
    return next(name for name, explains in _RULES if explains(difference))


def _says_the_same(d: Difference) -> bool:
    return d.retold.startswith(d.told)


def _differs_in_white_space(d: Difference) -> bool:
    return _bare(d.retold).startswith(_bare(d.told))


def _differs_in_composition(d: Difference) -> bool:
    return unicodedata.normalize("NFC", _bare(d.retold)).startswith(unicodedata.normalize("NFC", _bare(d.told)))


def _lacks_its_beginning(d: Difference) -> bool:
    return any(d.retold.startswith(d.told[cut:]) for cut in range(1, len(d.told)))


def _holds_the_same_object(d: Difference) -> bool:
    told, retold = _first_object(d.told), _first_object(d.retold)
    return told is not None and told == retold


def _mixes_up_special_tokens(d: Difference) -> bool:
    return ("<|" in d.told and "\ud800" in d.retold) or ("\ud800" in d.told and "<|" in d.retold)


_RULES: Final[tuple[tuple[str, Callable[[Difference], bool]], ...]] = (
    ("another conversation: not even the first id is the same", lambda d: d.common_ids == 0),
    ("the opening of the reply is rendered otherwise once it is history", lambda d: 0 < d.ids_to_reply <= GLUE_IDS),
    ("a branch from an earlier turn", lambda d: d.ids_to_reply > 0 and d.after_reply),
    ("history before the last reply was rewritten or shortened", lambda d: d.ids_to_reply > 0),
    ("ids merged across the end of the reply", lambda d: _says_the_same(d) and d.ids_to_end <= _MERGED_IDS),
    ("the reply was encoded again, with other ids", _says_the_same),
    ("white space of the reply was changed", _differs_in_white_space),
    ("Unicode of the reply was normalised", _differs_in_composition),
    ("the beginning of the reply was left out (reasoning, as a rule)", _lacks_its_beginning),
    ("a tool call was written anew", _holds_the_same_object),
    ("special tokens and their literal text were mixed up", _mixes_up_special_tokens),
    ("the reply was changed", lambda d: True),
)
"""In the order in which they are tried."""


def _bare(text: str) -> str:
    return "".join(text.split())


def _first_object(text: str) -> Any:
    begin = text.find("{")
    try:
        return json.JSONDecoder().raw_decode(text, begin)[0] if begin >= 0 else None
    except ValueError:
        return None
