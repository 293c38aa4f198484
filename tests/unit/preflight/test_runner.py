"""The preflight engine: parallel, bounded in time, and a check that breaks is `crashed`, never `fail`."""

from __future__ import annotations

import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from t1cli.errors import BadInput
from t1cli.preflight import runner
from t1cli.preflight.check import Check, failed, passed, skipped
from t1cli.preflight.report import PreflightReport
from t1cli.spec.load import load_experiment

QUICKSTART = load_experiment(Path("quickstart"))


def run(monkeypatch: pytest.MonkeyPatch, *checks: Check, only: tuple[str, ...] = (), **options: Any) -> PreflightReport:
    monkeypatch.setattr(runner, "ALL_CHECKS", checks)
    plan: Any = SimpleNamespace(name="x", digest="d")
    return runner.run_preflight(QUICKSTART, plan, runs_dir=Path("runs"), only=only, **options)


def broken(_: object) -> Any:
    raise RuntimeError("the probe itself fell over")


def test_a_broken_check_is_crashed_and_the_others_still_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    report = run(
        monkeypatch,
        Check("a.one", ("S1",), lambda _: passed("fine")),
        Check("a.two", (), broken),
        Check("b.three", (), lambda _: skipped("no cluster")),
    )
    assert [check.status for check in report.checks] == ["pass", "crashed", "skipped"]
    assert "the probe itself fell over" in report.checks[1].found
    assert not report.ready


def test_a_hanging_check_is_crashed_after_its_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    never = threading.Event()
    try:
        report = run(monkeypatch, Check("a.hangs", (), lambda _: passed(str(never.wait())), limit_seconds=0.2))
    finally:
        never.set()
    assert report.checks[0].status == "crashed"
    assert "0 s" in report.checks[0].found


def test_checks_run_in_parallel(monkeypatch: pytest.MonkeyPatch) -> None:
    together = threading.Barrier(3)

    def meet(_: object) -> Any:
        together.wait(timeout=120)
        return passed("met")

    report = run(monkeypatch, *(Check(f"a.c{i}", (), meet) for i in range(3)))
    assert [check.status for check in report.checks] == ["pass"] * 3


def test_results_keep_the_order_of_the_table_and_are_told_as_they_come(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    report = run(
        monkeypatch,
        Check("a.one", (), lambda _: passed("1")),
        Check("a.two", (), lambda _: failed("2", "3", "do it")),
        progress=lambda result: told.append(result.id),
    )
    assert told == ["a.one", "a.two"] == [check.id for check in report.checks]
    assert report.to_json()["ready"] is False
    assert next(iter(report.to_json())) == "format_version"


def test_only_takes_names_and_families_and_refuses_others(monkeypatch: pytest.MonkeyPatch) -> None:
    checks = (Check("a.one", (), lambda _: passed("1")), Check("b.two", (), lambda _: passed("2")))
    assert [check.id for check in run(monkeypatch, *checks, only=("b",)).checks] == ["b.two"]
    assert [check.id for check in run(monkeypatch, *checks, only=("a.one",)).checks] == ["a.one"]
    with pytest.raises(BadInput, match="nonesuch"):
        run(monkeypatch, *checks, only=("nonesuch",))
