"""Every argument of one slime version: slime's own, Megatron's, the router's and SGLang's."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Any, Final, Literal

from t1cli.errors import BadInput
from t1cli.spec.locate import data_root

Origin = Literal["slime", "megatron", "router", "sglang"]
Kind = Literal["int", "float", "str", "bool", "json", "expr", "unknown"]
"""`expr`: Megatron's layer pattern such as `[0]*3+[1]*45`. `unknown`: only the name was seen."""
Default = str | int | float | bool | list[Any] | dict[str, Any] | None

_ORIGINS: Final[Mapping[str, Origin]] = {"s": "slime", "m": "megatron", "r": "router", "g": "sglang"}
_PREFIX: Final = "arguments-"


@dataclass(frozen=True)
class Argument:
    """One argument as its parser declares it."""

    flag: str
    dest: str
    """Its attribute name, which `custom_config_path` and role files use."""
    kind: Kind
    default: Default
    choices: tuple[str | int | float, ...]
    nargs: str | int | None
    """argparse's nargs; None takes one value, and a `bool` takes none."""
    origin: Origin
    aliases: tuple[str, ...]
    action: str

    @property
    def takes_values(self) -> bool:
        """False for a switch."""
        return self.kind != "bool"

    @property
    def takes_many(self) -> bool:
        """Whether several values may follow."""
        return self.nargs in ("*", "+") or (isinstance(self.nargs, int) and self.nargs > 1)


@dataclass(frozen=True)
class Table:
    """The arguments of one slime version."""

    version: str
    about: Mapping[str, str]
    """Where the rows come from: repositories and commits."""
    by_flag: Mapping[str, Argument]
    """Every spelling of every argument."""
    removed: Mapping[str, str]
    """Flags of older versions that are gone, with the successor or an empty text."""
    set_by_slime: frozenset[str]
    """`--sglang-*` flags that slime sets itself and does not offer."""

    def find(self, flag: str) -> Argument | None:
        """The argument behind a flag or one of its other spellings."""
        return self.by_flag.get(flag)

    def by_dest(self, dest: str) -> Argument | None:
        """The argument that sets an attribute."""
        return _dests(self).get(dest)

    def near(self, flag: str) -> str | None:
        """The flag that was probably meant."""
        known = list(self.by_flag)
        swapped = flag.replace("_", "-")
        if swapped in self.by_flag:
            return swapped
        close = get_close_matches(swapped, known, n=1, cutoff=0.8)
        if close:
            return close[0]
        longer = sorted((name for name in known if name.startswith(swapped)), key=len)
        return longer[0] if longer and len(swapped) > len("--a") else None


# Removed before 0.3.0, still shown by slime's own documentation and older scripts.
_CRITIC_FLAGS: Final = ("load", "save", "lr", "lr-warmup-iters", "num-nodes", "num-gpus-per-node")
_LONG_REMOVED: Final[Mapping[str, str]] = {
    "--use-critic": "--advantage-estimator",
    **{f"--critic-{name}": "--megatron-config-path" for name in _CRITIC_FLAGS},
}


def known_versions() -> tuple[str, ...]:
    """Versions with a table, oldest first."""
    names = (path.stem.removeprefix(_PREFIX) for path in _directory().glob(f"{_PREFIX}*.json"))
    return tuple(sorted(names, key=lambda version: tuple(int(part) for part in version.split("."))))


@cache
def load_table(version: str) -> Table:
    """The table of a slime version. Raises BadInput for a version without one; nothing is guessed."""
    plain = version.removeprefix("v")
    if plain not in known_versions():
        known = ", ".join(known_versions())
        raise BadInput(f"no argument table for slime {version}", "engine.version", f"versions with a table: {known}")
    content = json.loads((_directory() / f"{_PREFIX}{plain}.json").read_text(encoding="utf-8"))
    base = load_table(content["base"]) if "base" in content else None
    removed = {**(base.removed if base else _LONG_REMOVED), **dict(content.get("removed", ()))}
    by_flag = {flag: argument for flag, argument in (base.by_flag if base else {}).items() if flag not in removed}
    for row in content["rows"]:
        argument = _argument(row)
        by_flag |= dict.fromkeys((argument.flag, *argument.aliases), argument)
    set_by_slime = frozenset(content.get("set_by_slime", ())) | (base.set_by_slime if base else frozenset())
    about = {**(base.about if base else {}), **content["about"]}
    return Table(plain, about, by_flag, removed, set_by_slime)


def _argument(row: list[Any]) -> Argument:
    flag, origin, kind = row[:3]
    extra: dict[str, Any] = row[3] if len(row) > 3 else {}
    return Argument(
        flag=flag,
        dest=extra.get("dest", flag.removeprefix("--").replace("-", "_")),
        kind=kind,
        default=extra.get("default", False if kind == "bool" else None),
        choices=tuple(extra.get("choices", ())),
        nargs=extra.get("nargs"),
        origin=_ORIGINS[origin],
        aliases=tuple(extra.get("aliases", ())),
        action=extra.get("action", "store_true" if kind == "bool" else "store"),
    )


@cache
def _dests_of(version: str) -> Mapping[str, Argument]:
    found: dict[str, Argument] = {}
    for argument in load_table(version).by_flag.values():
        found.setdefault(argument.dest, argument)
    return found


def _dests(table: Table) -> Mapping[str, Argument]:
    return _dests_of(table.version)


def _directory() -> Path:
    return data_root() / "presets" / "slime"
