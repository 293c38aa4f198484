"""The experiment file of a converted script: blocks in the usual order, with comments for what people must know."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import yaml

from t1cli.slime.script.bash.state import Note, Unknown
from t1cli.slime.script.fill import HARDWARE

_ORDER: Final = (
    "seed", "model", "hardware", "topology", "trainer", "algorithm", "rollout", "evaluation", "checkpoint", "tracking",
    "engine", "tasks", "reward", "sandbox", "slime_args",
)  # fmt: skip
_ABOVE: Final[Mapping[str, str]] = {
    "tasks": "slime's own rollout runs: the next three blocks only stand here because every spec has them.",
    "slime_args": "Arguments without a field.",
}


@dataclass(frozen=True)
class Draft:
    """A converted script before it is written."""

    name: str
    script: str
    preset: str | None
    tree: Mapping[str, Any]
    assumptions: tuple[str, ...]
    notes: tuple[Note, ...] = ()
    unknowns: tuple[Unknown, ...] = ()

    def with_arguments(self, escaped: Mapping[str, Any], left_out: Sequence[str]) -> Draft:
        """With more `slime_args` and a longer `engine.leave_out`."""
        engine = dict(self.tree["engine"])
        if left_out:
            engine["leave_out"] = [*engine.get("leave_out", ()), *left_out]
        arguments = {**self.tree.get("slime_args", {}), **escaped}
        tree = {**self.tree, "engine": engine, **({"slime_args": arguments} if arguments else {})}
        return replace(self, tree=tree)

    def with_notes(self, notes: Sequence[Note], unknowns: Sequence[Unknown]) -> Draft:
        """With what the head of the file says."""
        return replace(self, notes=tuple(notes), unknowns=tuple(unknowns))


def spec_text(draft: Draft) -> str:
    """The file."""
    presets = [name for name in (draft.preset, HARDWARE) if name]
    parts = [_head(draft), f"name: {draft.name}\n", _block({"presets": presets})]
    for name in _ORDER:
        if name in draft.tree:
            above = f"# {_ABOVE[name]}\n" if name in _ABOVE else ""
            parts.append(above + _block({name: draft.tree[name]}))
    return "\n".join(parts)


def _head(draft: Draft) -> str:
    lines = [f"Read from the slime script {draft.script}, which was not executed."]
    lines += [f"Assumed: {text}." for text in draft.assumptions]
    lines += [f"<{u.name}>: {u.reason} ({u.where}); {u.remedy}." for u in draft.unknowns]
    lines += [f"{note.where}: {note.message}." for note in draft.notes]
    return "".join(f"{line}\n" for text in lines for line in _comment(text))


def _comment(text: str) -> list[str]:
    return textwrap.wrap(text, 116, initial_indent="# ", subsequent_indent="#   ", break_long_words=False)


def _block(content: Mapping[str, Any]) -> str:
    return str(yaml.dump(_plain(content), Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=110))


def _plain(value: Any) -> Any:
    """Subclasses of str and tuples as YAML's own kinds."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    # A spec reads ${…} as a reference to another key.
    return str(value).replace("${", "\\${") if isinstance(value, str) else value


class _Dumper(yaml.SafeDumper):
    """Floats as YAML 1.1 reads them back (`1.0e-06`, not `1e-06`); short lists on one line."""


def _float(dumper: yaml.SafeDumper, value: float) -> yaml.ScalarNode:
    text = repr(value)
    if "e" in text and "." not in text:
        text = text.replace("e", ".0e")
    return dumper.represent_scalar("tag:yaml.org,2002:float", text)


def _list(dumper: yaml.SafeDumper, value: list[Any]) -> yaml.SequenceNode:
    flow = all(isinstance(item, int | float) for item in value)
    return dumper.represent_sequence("tag:yaml.org,2002:seq", value, flow_style=flow)


_Dumper.add_representer(float, _float)
_Dumper.add_representer(list, _list)
