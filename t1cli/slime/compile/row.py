"""A row of the table between spec keys and flags, and the few shapes that most rows have."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pydantic import BaseModel

from t1cli.slime.arguments.read import Value
from t1cli.slime.compile.places import Places
from t1cli.spec.experiment import ExperimentSpec

Pair = tuple[str, tuple[str, ...]]
"""A flag and its words."""
Reading = Mapping[str, Value]
"""Flag to its value, of an argument list; the last one wins. A switch is True."""
Updates = Mapping[str, Any]
"""Dotted spec key to value."""

_MISSING: Final = object()


class View:
    """A spec as rows read it."""

    def __init__(self, spec: ExperimentSpec, places: Places) -> None:
        self.spec = spec
        self.places = places

    @property
    def from_script(self) -> bool:
        """Whether only written keys become arguments."""
        return self.spec.engine.kind == "slime" and self.spec.engine.from_script

    @property
    def ppo(self) -> bool:
        return self.spec.algorithm.kind == "ppo"

    @property
    def moe(self) -> bool:
        return self.spec.model.architecture.num_experts > 0

    @property
    def asynchronous(self) -> bool:
        """Whether `train_async.py` runs it."""
        return self.spec.rollout.pipeline != "sync"

    @property
    def by_slime(self) -> bool:
        """Whether slime's stock loop plays a campaign's trials, one call of ours for each."""
        engine = self.spec.engine
        stock = engine.kind == "slime" and engine.rollout_loop == "slime" and not engine.from_script
        return stock and self.spec.rollout.pipeline != "fully_async"

    def get(self, key: str) -> Any:
        """A value by its dotted key; None below a block that is null or of another kind."""
        value: Any = self.spec
        for part in key.split("."):
            value = getattr(value, part, None)
        return value

    def written(self, key: str) -> bool:
        """Whether a layer gives the key (defaults are not written). A block counts when anything in it is written."""
        value: Any = self.spec
        for part in key.split("."):
            if not isinstance(value, BaseModel) or part not in value.model_fields_set:
                return False
            value = getattr(value, part)
        return True


Encode = Callable[[View], Sequence[Pair]]
Decode = Callable[[Reading], Updates]


@dataclass(frozen=True)
class Row:
    """Flags that come from the same keys."""

    flags: tuple[str, ...]
    """Every flag that the row may give; t1 owns them."""
    keys: tuple[str, ...]
    """Spec keys behind them; the first one is what people change."""
    encode: Encode
    decode: Decode
    when: Callable[[View], bool] = lambda view: True

    def pairs(self, view: View) -> Sequence[Pair]:
        """The row's arguments; a spec from a script gives only what is written."""
        if not self.when(view) or (view.from_script and not any(view.written(key) for key in self.keys)):
            return ()
        return self.encode(view)


def value(flag: str, key: str, when: Callable[[View], bool] = lambda view: True) -> Row:
    """`flag VALUE`; nothing for null."""

    def encode(view: View) -> Sequence[Pair]:
        found = view.get(key)
        return () if found is None or found == "" else ((flag, (text(found),)),)

    def decode(reading: Reading) -> Updates:
        found = reading.get(flag)
        if isinstance(found, list):  # an argument that may take several values, given one
            found = found[0] if len(found) == 1 else None
        return {key: found} if found is not None else {}

    return Row((flag,), (key,), encode, decode, when)


def words(flag: str, key: str) -> Row:
    """`flag WORD WORD …`; nothing for an empty list."""

    def encode(view: View) -> Sequence[Pair]:
        found = view.get(key)
        return ((flag, tuple(text(item) for item in found)),) if found else ()

    return Row((flag,), (key,), encode, lambda reading: {key: reading[flag]} if flag in reading else {})


def switch(flag: str, key: str, when: Callable[[View], bool] = lambda view: True) -> Row:
    """`flag` when the key is true. Read back, its absence says nothing."""

    def encode(view: View) -> Sequence[Pair]:
        return ((flag, ()),) if view.get(key) is True else ()

    return Row((flag,), (key,), encode, lambda reading: {key: True} if flag in reading else {}, when)


def unless(flag: str, key: str, when: Callable[[View], bool] = lambda view: True) -> Row:
    """`flag` when the key is false."""

    def encode(view: View) -> Sequence[Pair]:
        return ((flag, ()),) if view.get(key) is False else ()

    return Row((flag,), (key,), encode, lambda reading: {key: False} if flag in reading else {}, when)


def fixed(flag: str, key: str, word: str) -> Row:
    """`flag WORD` whenever the block at the key is there."""
    return Row((flag,), (key,), lambda view: ((flag, (word,)),), lambda reading: {})


def text(item: object) -> str:
    """A value as one word of an argument list."""
    return repr(item) if isinstance(item, float) else str(item)
