"""What code says it catches is found without importing it."""

from __future__ import annotations

from pathlib import Path

import pytest

from t1cli.catalogue.source_scan import scan_file, stage_of

CODE = '''
"""A module (catalogue S2)."""


def rule(draft):
    """Docs of a rule."""
    yield draft.finding("M2" if logits else "M1", "error", key="a", message=f"peak {gib} GiB", fix="raise cp")


class Line:
    """Bounded (catalogue S3, S4 at watch), and fair."""


def gate():
    limit = f"{name} is set"
    return Refusal("M9", limit, "", "unset it"), other("C1"), Refusal("T-other", "no row", "", "")


RULES = (Rule("C2", "error", "--save", lambda a: True, "shared", "two directories"),)
'''


def test_every_way_of_saying_it(tmp_path: Path) -> None:
    path = tmp_path / "t1cli" / "launch" / "some.py"
    path.parent.mkdir(parents=True)
    path.write_text(CODE)
    found = {(c.id, c.stage, c.kind, c.name, c.says, c.fix) for c in scan_file(tmp_path / "t1cli", path)}
    assert found == {
        ("S2", "launch", "code", "some", ("A module.",), ""),
        ("S3", "watch", "code", "some.Line", ("Bounded, and fair.",), ""),
        ("S4", "watch", "code", "some.Line", ("Bounded, and fair.",), ""),
        ("M1", "launch", "finding", "some.rule", ("peak ‹gib› GiB",), "raise cp"),
        ("M2", "launch", "finding", "some.rule", ("peak ‹gib› GiB",), "raise cp"),
        ("M9", "launch", "refusal", "some.gate", ("‹name› is set",), "unset it"),
        ("C2", "launch", "argument rule", "some", ("shared",), "two directories"),
    }


@pytest.mark.parametrize(
    ("where", "stage"),
    [
        ("t1cli/terminal/rewards/ctrf.py", "rollout"),
        ("t1cli/terminal/sandbox/pool/keeper.py", "pool"),
        ("t1cli/terminal/sandbox/pool/client.py", "rollout"),
        ("t1cli/slime/arguments/silent.py", "plan"),
    ],
)
def test_the_longest_beginning_decides_the_stage(where: str, stage: str) -> None:
    assert stage_of(where) == stage
