"""docs/reference/failure-modes.md, written from the rows and from what the code says it catches."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Final

from t1cli.catalogue.catcher import Catcher
from t1cli.catalogue.entry import Entry, entries
from t1cli.catalogue.explain import Explained, explained
from t1cli.plan.build import build_plan
from t1cli.spec.load import load_experiment

PAGE_FILE: Final = "failure-modes.md"

_HEAD: Final = """# Failure modes

Every way a terminal-agent RL campaign is known to have died, or to have gone wrong without a word, and what catches it
before or while it costs GPU time. `t1 explain ID` prints one of them; findings, checks and alerts name the ID.

This page is generated (`make docs`) from the rows under `t1cli/catalogue/rows/` and from the checks, findings,
refusals, rules, diagnoses and log signatures themselves. A value that a message fills in stands in ‹angle quotes›.

| ID | what goes wrong | caught in |
|---|---|---|
"""


def page_text() -> str:
    """The whole page, Markdown."""
    rows = [explained(id_) for id_ in entries()]
    parts = [_HEAD + "".join(_row(item) for item in rows)]
    for family, items in groupby(rows, key=lambda item: item.entry.family):
        parts.append(f"\n## {family}\n")
        parts += [_section(item) for item in items]
    return "".join(parts)


def _row(item: Explained) -> str:
    entry = item.entry
    return f"| [{entry.id}](#{entry.id.lower()}) | {entry.title} | {', '.join(entry.stages)} |\n"


def _section(item: Explained) -> str:
    entry = item.entry
    told = (
        ("You see", entry.symptom),
        ("Often taken for", entry.first_guess),
        ("Why", entry.mechanism),
        ("Fix", entry.fix),
        ("Seen in", entry.source),
    )
    lines = [f'\n<a id="{entry.id.lower()}"></a>\n\n### {entry.id}: {entry.title}\n\n']
    lines += [f"- **{label}:** {text.strip()}\n" for label, text in told]
    lines += [_example(entry)] if entry.example else []
    lines.append("\n| caught in | by | what it says |\n|---|---|---|\n")
    lines += [_caught(catcher) for catcher in item.catchers]
    return "".join(lines) + "".join(_proven(item))


def _example(entry: Entry) -> str:
    """The command that shows the row, and what the plan says of it now."""
    name, *settings = entry.example.replace("--set ", "").split()
    findings = build_plan(load_experiment(Path(name), settings)).findings
    said = next(finding.message for finding in findings if finding.id == entry.id)
    return f"- **See it:** `t1 plan {entry.example}` says “{said.replace('<', '&lt;')}”\n"


def _caught(catcher: Catcher) -> str:
    says = [f"“{_cell(text)}”" for text in catcher.says]
    if catcher.kind == "code":
        says = [_cell(text) for text in catcher.says]
    fix = [f"→ {_cell(catcher.fix)}"] if catcher.fix else []
    return f"| {catcher.stage} | {catcher.kind} `{catcher.name}` | {'<br>'.join([*says, *fix])} |\n"


def _proven(item: Explained) -> Iterator[str]:
    if item.tests:
        yield "\nProven by:\n\n"
        yield from (f"- `{test}`\n" for test in item.tests)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;").replace("\n", " ")
