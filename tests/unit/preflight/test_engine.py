"""The engine's promises: needs, kept answers, one result per node, repeating, and nothing left by a killed probe."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from t1cli.preflight.check import Check, Context, Kept, Saw, failed, passed, skipped, warned
from t1cli.preflight.checks import ALL_CHECKS
from t1cli.preflight.every_node import EveryNode, outliers, together
from t1cli.preflight.fleet import Answer, Later, NoNodes, Probe
from t1cli.preflight.guard import PREFIX, remove_dead
from t1cli.preflight.guarded import ProbeBroke, ask_guarded
from t1cli.preflight.keep import FILE_NAME, KeptAnswers
from t1cli.preflight.memo import Memo
from t1cli.preflight.repeat import until_green
from t1cli.preflight.report import CheckResult, PreflightReport
from t1cli.preflight.runner import run_checks
from tests.unit.preflight.conftest import MakeContext

ROOT = Path(__file__).parents[3]
SEEN = "tests.unit.preflight.probe_doubles"


def test_every_check_needs_only_what_stands_before_it_and_says_what_it_asks() -> None:
    earlier: set[str] = set()
    for check in ALL_CHECKS:
        assert set(check.needs) <= earlier, check.id
        assert len(check.question) > 20, check.id
        earlier.add(check.id)
    assert len(earlier) == len(ALL_CHECKS)


def test_what_needs_a_failed_check_is_skipped_with_its_name(context_of: MakeContext) -> None:
    asked: list[str] = []

    def seen(_: Context) -> Saw:
        asked.append("late")
        return passed("fine")

    checks = (
        Check("a.first", (), lambda _: failed("no", "yes", "do it")),
        Check("a.warns", (), lambda _: warned("so so", "yes", "do it")),
        Check("b.second", (), seen, needs=("a.first",)),
        Check("b.third", (), seen, needs=("b.second",)),
        Check("b.fourth", (), seen, needs=("a.warns", "not.chosen")),
    )
    report = run_checks(checks, context_of("quickstart"))
    found = {check.id: (check.status, check.found) for check in report.checks}
    assert found["b.second"] == ("skipped", "needs a.first, which failed")
    assert found["b.third"] == ("skipped", "needs b.second, which was skipped")
    assert found["b.fourth"][0] == "pass" and asked == ["late"]


def test_a_check_begins_after_what_it_needs_and_its_own_time_begins_then(context_of: MakeContext) -> None:
    order: list[str] = []

    def slow(_: Context) -> Saw:
        time.sleep(0.3)
        order.append("slow")
        return passed("slow")

    def quick(_: Context) -> Saw:
        order.append("quick")
        return passed("quick")

    checks = (Check("a.slow", (), slow), Check("b.quick", (), quick, needs=("a.slow",)))
    report = run_checks(checks, context_of("quickstart"))
    assert [check.status for check in report.checks] == ["pass", "pass"] and order == ["slow", "quick"]
    assert report.checks[0].seconds >= 0.3


def kept_check(answers: list[Saw], key: Callable[[Context], str] = lambda _: "k") -> Check:
    return Check("a.dear", (), lambda _: answers.pop(0), kept=Kept(3600.0, key))


def test_a_kept_answer_is_recalled_with_its_age_until_it_is_asked_afresh(
    context_of: MakeContext, tmp_path: Path
) -> None:
    context, store = context_of("quickstart"), KeptAnswers(tmp_path)

    def ask(check: Check, recall: KeptAnswers | None = store) -> CheckResult:
        return run_checks([check], context, recall=recall, keep=store).checks[0]

    first = ask(kept_check([passed("one")]))
    assert (first.found, first.age_seconds) == ("one", None)
    again = ask(kept_check([]))
    assert again.found.startswith("one (asked ") and "--fresh asks again" in again.found
    assert again.age_seconds is not None and again.status == "pass"
    assert ask(kept_check([warned("two", "w", "f")]), recall=None).found == "two"
    assert ask(kept_check([])).status == "warn"
    assert ask(kept_check([passed("three")], key=lambda _: "other")).found == "three"


def test_failures_are_never_kept_and_a_damaged_record_is_asked_again(context_of: MakeContext, tmp_path: Path) -> None:
    context, store = context_of("quickstart"), KeptAnswers(tmp_path)
    run_checks([kept_check([failed("no", "yes", "fix")])], context, recall=store, keep=store)
    assert run_checks([kept_check([passed("now")])], context, recall=store, keep=store).checks[0].found == "now"
    record = tmp_path / FILE_NAME
    record.write_text(record.read_text() + '{"id": "a.dear", "key"')
    assert run_checks([kept_check([])], context, recall=store, keep=store).checks[0].status == "pass"
    record.write_bytes(b"\xff\x00 nonsense\n[]\n")
    assert run_checks([kept_check([passed("new")])], context, recall=store, keep=store).checks[0].found == "new"


def test_an_old_answer_and_a_link_are_not_believed(context_of: MakeContext, tmp_path: Path) -> None:
    store, kept = KeptAnswers(tmp_path), Kept(60.0, lambda _: "k")
    store.keep("a.dear", "k", passed("old"))
    record = tmp_path / FILE_NAME
    entry = json.loads(record.read_text())
    record.write_text(json.dumps({**entry, "at": time.time() - 61}) + "\n")
    assert store.recall("a.dear", "k", kept) is None
    record.write_text(json.dumps({**entry, "at": time.time() + 3600}) + "\n")
    assert store.recall("a.dear", "k", kept) is None
    target = tmp_path / "target"
    target.write_text("mine\n")
    record.unlink()
    record.symlink_to(target)
    store.keep("a.dear", "k", passed("x"))
    assert target.read_text() == "mine\n"


def test_a_cluster_is_asked_once_and_its_outliers_are_named(context_of: MakeContext) -> None:
    probe, gathered = Probe("x:y", {"a": 1}), []

    def gather() -> dict[str, dict[str, Answer]]:
        gathered.append(1)
        return {f"n{number}": {probe.key: Answer(value)} for number, value in enumerate((1, 9, 1, 1))}

    def judge(_: Context, value: Any) -> Saw:
        """Small."""
        return passed(f"is {value}") if value < 5 else failed(f"is {value}", "below 5", "lower it")

    check = Check("a.node", (), EveryNode(lambda _: probe, judge))
    result = run_checks([check], context_of("quickstart", fleet=Later(gather))).checks[0]
    assert result.status == "fail" and result.found == "n1: is 9; the other 3: is 1" and result.fix == "on n1: lower it"
    assert [(node.node, node.status) for node in result.nodes] == [
        ("n0", "pass"),
        ("n1", "fail"),
        ("n2", "pass"),
        ("n3", "pass"),
    ]
    assert check.question == "Small." and len(gathered) == 1


def test_nodes_that_say_nothing_crash_the_check_and_no_nodes_skip_it(context_of: MakeContext) -> None:
    def nobody() -> Any:
        raise NoNodes("nobody there")

    check = Check("a.node", (), EveryNode(lambda _: Probe("x:y"), lambda _, __: passed("fine")))
    silent = Later(lambda: {"n0": {"x:y {}": Answer(problem="it fell over")}, "n1": {"x:y {}": Answer(1)}})
    result = run_checks([check], context_of("quickstart", fleet=silent)).checks[0]
    assert result.status == "crashed" and result.found.startswith("n0: it fell over; the other 1: fine")
    assert run_checks([check], context_of("quickstart", fleet=Later(nobody))).checks[0].found == "nobody there"


def test_many_outliers_are_counted() -> None:
    seen = {f"n{number}": failed("bad", "good", "fix") for number in range(6)} | {"ok": passed("good")}
    saw = together(seen)
    assert saw.found == "n0: bad; n1: bad; n2: bad; and 3 more nodes; the other 1: good"
    assert together({f"n{number}": passed("same") for number in range(4)}).found == "same on all 4 nodes"
    assert outliers({"a": 1, "b": 2, "c": 1}) == {"b": 2} and outliers({}) == {}


def test_a_memo_asks_once_and_repeats_its_failure() -> None:
    memo, calls = Memo(), []

    def broken() -> int:
        calls.append(1)
        raise ValueError("once")

    for _ in range(2):
        with pytest.raises(ValueError, match="once"):
            memo.once("x", broken)
    assert calls == [1] and memo.once("y", lambda: 3) == 3


def test_watch_repeats_until_green_and_tells_what_changed() -> None:
    def report(**states: Any) -> PreflightReport:
        checks = tuple(CheckResult(name, (), state, "f", "w", "x") for name, state in states.items())
        return PreflightReport("n", "d", checks)

    rounds = [report(a="fail", b="pass"), report(a="fail", b="warn"), report(a="pass", b="warn")]
    told: list[str] = []
    slept: list[float] = []
    last = until_green(
        lambda: rounds.pop(0),
        every_seconds=7.0,
        is_green=lambda found: found.ready,
        changed=lambda check: told.append(f"{check.id} {check.status}"),
        sleep=slept.append,
    )
    assert last.ready and told == ["b warn", "a pass"] and slept == [7.0, 7.0] and not rounds


def test_a_guarded_probe_answers_and_leaves_nothing(tmp_path: Path) -> None:
    assert ask_guarded(SEEN, {"do": "answer", "note": str(tmp_path / "note")}, seconds=120) == {"worked": True}
    directory = Path((tmp_path / "note").read_text())
    assert not directory.exists() and directory.name.startswith(PREFIX)
    with pytest.raises(ProbeBroke, match="ValueError: asked to"):
        ask_guarded(SEEN, {"do": "raise"}, seconds=120)
    with pytest.raises(ProbeBroke, match="without an answer"):
        ask_guarded(SEEN, {"do": "die"}, seconds=120)
    with pytest.raises(ProbeBroke, match="no answer within 1 s"):
        ask_guarded(SEEN, {"do": "hang"}, seconds=1)


ASKING = """
import json, sys
from t1cli.preflight.guarded import ask_guarded
ask_guarded(sys.argv[1], json.loads(sys.argv[2]), seconds=600)
"""


def test_killed_in_the_middle_nothing_is_left(tmp_path: Path) -> None:
    note = tmp_path / "note"
    request = json.dumps({"do": "spawn", "note": str(note)})
    asker = subprocess.Popen([sys.executable, "-c", ASKING, SEEN, request], cwd=ROOT, start_new_session=True)
    wait_until(lambda: note.exists() and len(note.read_text().split()) == 2)
    directory, child = note.read_text().split()
    assert Path(directory, "made").exists()
    # The whole group, as a terminal or a job server would.
    os.killpg(asker.pid, signal.SIGKILL)
    asker.wait()
    wait_until(lambda: not Path(directory).exists())
    wait_until(lambda: not os.path.exists(f"/proc/{child}"))


def test_what_a_killed_guard_left_is_removed_by_the_next(tmp_path: Path) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    for name in (f"{PREFIX}{ended.pid}-abc", f"{PREFIX}{os.getpid()}-abc", "other"):
        (tmp_path / name).mkdir()
    remove_dead(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["other", f"{PREFIX}{os.getpid()}-abc"]
    assert Path(tempfile.gettempdir()).is_dir()


def test_a_check_that_is_skipped_by_its_probe(context_of: MakeContext) -> None:
    check = Check("a.node", (), EveryNode(lambda _: skipped("not here"), lambda _, __: passed("never")))
    assert run_checks([check], context_of("quickstart")).checks[0].found == "not here"


def wait_until(condition: Callable[[], bool], seconds: float = 120.0) -> None:
    """Poll a condition with a generous deadline."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "not in time"
        time.sleep(0.05)
