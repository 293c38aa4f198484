"""What an audit sees without a judge: bad tasks of many kinds are named rightly, and good ones are left alone."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from t1cli.terminal.tasks.audit.audit_pool import PoolAudit, TaskAudit, audit_pool, examined
from t1cli.terminal.tasks.audit.finding import REJECTIONS
from t1cli.terminal.tasks.audit.rubric import DimensionName, load_rubric
from t1cli.terminal.tasks.check_pool import TaskCheck
from t1cli.terminal.tasks.digest import digest_of
from t1cli.terminal.tasks.generator import GeneratedTask, generate_pool, write_harbor
from t1cli.terminal.tasks.new_task import new_task
from t1cli.terminal.tasks.problem import Problem
from t1cli.terminal.tasks.steps import Check

RUBRIC = load_rubric()
REWARD = '\nmkdir -p "$T1_ROOT/logs/verifier"\n'

GOOD = GeneratedTask(
    name="totals",
    family="sums",
    difficulty=2,
    instruction="1. Write the sum of the second column of sales.csv to total.txt.\n"
    "2. List the regions in regions.txt.\n",
    setup_files={"sales.csv": "north 12\nsouth 30\n"},
    solution=("awk '{s+=$2} END {print s}' sales.csv > total.txt", "cut -d' ' -f1 sales.csv > regions.txt"),
    checks=(
        Check("total", ("text('total.txt').split() == ['42']",)),
        Check("regions", ("text('regions.txt') == 'north\\nsouth\\n'",)),
    ),
    names=(),
)
Break = Callable[[Path], object]


def put(name: str, text: str) -> Break:
    def write(task: Path) -> None:
        (task / name).parent.mkdir(parents=True, exist_ok=True)
        (task / name).write_text(text)

    return write


def add(name: str, text: str) -> Break:
    return lambda task: (task / name).write_text((task / name).read_text() + text)


def swap(name: str, old: str, new: str) -> Break:
    def write(task: Path) -> None:
        text = (task / name).read_text()
        assert old in text
        (task / name).write_text(text.replace(old, new))

    return write


def only(body: str) -> Break:
    return put("tests/test_outputs.py", f"import os\nfrom pathlib import Path\n\nWORK = Path('/work')\n\n\n{body}")


def both(*changes: Break) -> Break:
    return lambda task: [change(task) for change in changes]


# What is wrong -> the rejection and the kind that must be named, and how a good task is made so.
PLANTED: dict[str, tuple[str, str, Break]] = {
    "secret-file": (
        "hidden_requirements",
        "unnamed-literal",
        both(
            add("solution/solve.sh", "cp total.txt ledger.dat\n"),
            add("tests/test_outputs.py", "\n\ndef test_copy():\n    assert text('ledger.dat') == text('total.txt')\n"),
        ),
    ),
    "secret-mode": (
        "hidden_requirements",
        "unnamed-literal",
        both(
            add("solution/solve.sh", "chmod 640 total.txt\n"),
            add("tests/test_outputs.py", "\n\ndef test_mode():\n    assert mode('total.txt') == '640'\n"),
        ),
    ),
    "secret-constant": (
        "hidden_requirements",
        "unnamed-literal",
        both(
            add("solution/solve.sh", "awk '{print \"currency: zloty\"}' sales.csv > total.txt\n"),
            add(
                "tests/test_outputs.py",
                "\n\nUNIT = 'zloty'\n\n\ndef test_unit():\n    assert UNIT in text('total.txt')\n",
            ),
        ),
    ),
    "tests-in-image": (
        "test_leakage",
        "tests-in-image",
        add("environment/Dockerfile", "COPY tests/ /opt/tests/\n"),
    ),
    "test-file-in-environment": (
        "test_leakage",
        "test-file-in-environment",
        lambda task: shutil.copyfile(task / "tests/test_outputs.py", task / "environment/files/check.py"),
    ),
    "expected-file-in-environment": (
        "test_leakage",
        "test-file-in-environment",
        both(
            put("tests/expected_report.txt", "north 12\nsouth 30\nall of it 42\n"),
            put("environment/files/old.txt", "north 12\nsouth 30\nall of it 42\n"),
        ),
    ),
    "expected-output-in-environment": (
        "test_leakage",
        "expected-output-in-environment",
        put("environment/files/.expected_regions", "north\nsouth\n"),
    ),
    "test-in-instruction": (
        "test_leakage",
        "test-in-instruction",
        add("instruction.md", "It is graded by `text('total.txt').split() == ['42']`.\n"),
    ),
    "oracle-reads-tests": (
        "solution_shortcuts",
        "oracle-reads-tests",
        add("solution/solve.sh", 'cp "$T1_ROOT/tests/total.txt" total.txt\n'),
    ),
    "oracle-writes-reward": (
        "solution_shortcuts",
        "oracle-writes-reward",
        add("solution/solve.sh", 'echo 1 > "$T1_ROOT/logs/verifier/reward.txt"\n'),
    ),
    "oracle-copies-expected": (
        "solution_shortcuts",
        "oracle-copies-expected",
        both(
            put("solution/answer.txt", "north\nsouth\n"),
            add("solution/solve.sh", "cp /solution/answer.txt regions.txt\n"),
        ),
    ),
    "oracle-writes-answer": (
        "solution_shortcuts",
        "oracle-writes-answer",
        put("solution/solve.sh", "#!/bin/sh\necho 42 > total.txt\ncut -d' ' -f1 sales.csv > regions.txt\n"),
    ),
    "solution-in-environment": (
        "solution_shortcuts",
        "solution-in-environment",
        lambda task: shutil.copyfile(task / "solution/solve.sh", task / "environment/files/.backup"),
    ),
    "always-rewards": (
        "verifier_too_weak",
        "always-rewards",
        put("tests/test.sh", f"#!/bin/sh{REWARD}python3 -m pytest /tests\necho 1 > /logs/verifier/reward.txt\n"),
    ),
    "no-checks": ("verifier_too_weak", "no-checks", only("def total():\n    assert (WORK / 'total.txt').exists()\n")),
    "empty-body": ("verifier_too_weak", "empty-check", add("tests/test_outputs.py", "\n\ndef test_x():\n    pass\n")),
    "empty-constant": (
        "verifier_too_weak",
        "empty-check",
        add("tests/test_outputs.py", "\n\ndef test_x():\n    assert text('total.txt') == '1' or True\n"),
    ),
    "empty-itself": (
        "verifier_too_weak",
        "empty-check",
        add("tests/test_outputs.py", "\n\ndef test_x():\n    assert WORK == WORK\n"),
    ),
    "existence-only": (
        "verifier_too_weak",
        "existence-only",
        only(
            "def test_total():\n    path = WORK / 'total.txt'\n"
            "    assert path.exists() and path.stat().st_size > 0\n\n\n"
            "def test_regions():\n    assert os.path.isfile(WORK / 'regions.txt')\n"
        ),
    ),
    "optional-checks": (
        "verifier_too_weak",
        "optional-check",
        only(
            "def test_total():\n    path = WORK / 'total.txt'\n    if path.exists():\n"
            "        assert path.read_text() == '42\\n'\n\n\n"
            "def test_regions():\n    try:\n        assert (WORK / 'regions.txt').read_text() == 'north\\nsouth\\n'\n"
            "    except Exception:\n        pass\n"
        ),
    ),
    "too-few-checks": (
        "verifier_too_weak",
        "too-few-checks",
        both(
            add("instruction.md", "3. Keep sales.csv.\n4. Leave no other file.\n5. Add no header.\n"),
            only("def test_total():\n    assert (WORK / 'total.txt').read_text() == '42\\n'\n"),
        ),
    ),
}


def planted(tmp_path: Path, change: Break) -> TaskAudit:
    task = write_harbor(GOOD, tmp_path)
    change(task)
    return examined(task, RUBRIC)[0]


@pytest.mark.parametrize("name", PLANTED)
def test_each_planted_fault_is_named(name: str, tmp_path: Path) -> None:
    rejection, kind, change = PLANTED[name]
    found = planted(tmp_path, change)
    assert found.rejections == (rejection,), found.reasons
    assert kind in {finding.kind for finding in found.findings if finding.hard}
    assert not found.broken and found.state(0.0) == "rejected"


def test_every_rejection_has_planted_faults() -> None:
    assert {rejection for rejection, _, _ in PLANTED.values()} == set(REJECTIONS)


def test_the_task_they_were_planted_in_is_clean(tmp_path: Path) -> None:
    found = planted(tmp_path, lambda _: None)
    assert not found.findings and not found.broken
    assert found.dimensions == {
        "specified": 1.0,
        "covered": 1.0,
        "sealed": 1.0,
        "derived": 1.0,
        "reproducible": 1.0,
        "graded": 0.5,
    }
    assert found.scored_weight == pytest.approx(0.85) and found.score == pytest.approx(0.8 / 0.85, abs=1e-4)


@pytest.mark.parametrize("seed", [0, 7])
def test_generated_tasks_are_all_clean(seed: int, tmp_path: Path) -> None:
    paths = [write_harbor(task, tmp_path) for task in generate_pool(96, seed)]
    found = [examined(path, RUBRIC)[0] for path in paths]
    assert [(task.name, task.reasons, task.broken) for task in found if task.findings or task.broken] == []
    assert all(task.state(RUBRIC.limits.score_min) == "accepted" for task in found)


@pytest.mark.parametrize(
    "change",
    [
        add("solution/solve.sh", "python3 -m pytest /app/tests/ ./tests/\n"),
        both(
            put("environment/tests/test_sums.py", "def test_sums():\n    assert sum([]) == 0\n"),
            add("environment/Dockerfile", "COPY tests/ /app/tests/\n"),
        ),
    ],
)
def test_tests_of_the_program_under_work_are_no_leak(change: Break, tmp_path: Path) -> None:
    assert not planted(tmp_path, change).findings


def test_a_new_task_is_clean(tmp_path: Path) -> None:
    new_task(tmp_path / "mine")
    assert not examined(tmp_path / "mine", RUBRIC)[0].reasons


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        (add("tests/test_outputs.py", "\n\ndef test_x():\n    assert 'verdant' in text('total.txt')\n"), "unexplained"),
        (both(put("tests/in.csv", "a,b\n" * 9), put("environment/files/in.csv", "a,b\n" * 9)), "test-file-in"),
        (add("instruction.md", "3. Keep sales.csv as it is.\n"), "too-few-checks"),
    ],
)
def test_a_doubt_is_told_and_rejects_nothing(change: Break, kind: str, tmp_path: Path) -> None:
    found = planted(tmp_path, change)
    assert not found.rejections and [finding.hard for finding in found.findings] == [False]
    assert found.findings[0].kind.startswith(kind) and found.score < planted(tmp_path / "b", lambda _: None).score


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda task: (task / "task.toml").unlink(), "task.toml is missing"),
        (put("tests/test.sh", "#!/bin/sh\nmkdir /logs\npip install x\npytest\necho $? > reward.txt\n"), "no network"),
        (put("tests/test.sh", "#!/bin/sh\npytest\n"), "never writes reward"),
    ],
)
def test_what_cannot_be_trained_on_is_broken(change: Break, said: str, tmp_path: Path) -> None:
    found = planted(tmp_path, change)
    assert found.state(0.0) == "broken" and said in found.broken[0]


DEEP = "def test_a():\n    assert " + "'a' + " * 2000 + "'a' == 'b'\n"


@pytest.mark.parametrize("text", [DEEP, "def test_a(:\n", "\0", "(" * 5000, "x = " + "-" * 20000 + "1\n"])
def test_tests_that_are_no_python_are_survived(text: str, tmp_path: Path) -> None:
    assert planted(tmp_path, put("tests/test_outputs.py", text)).rejections == ("verifier_too_weak",)


@pytest.mark.parametrize(
    ("change", "lowered"),
    [
        (add("environment/Dockerfile", "RUN pip install numpy\n"), "reproducible"),
        (add("tests/test_outputs.py", "\n\nimport time\nNOW = time.time()\n"), "reproducible"),
    ],
)
def test_measures_fall_with_what_they_measure(change: Break, lowered: DimensionName, tmp_path: Path) -> None:
    assert planted(tmp_path, change).dimensions[lowered] == 0.5


def check_of(task: Path, *problems: Problem, digest: str = "", no_op_passed: int = 0) -> TaskCheck:
    return TaskCheck(task.name, digest or digest_of(task), problems, tests=2, no_op_passed=no_op_passed)


def audited(pool: Path, check: TaskCheck) -> PoolAudit:
    return asyncio.run(audit_pool([pool / "totals"], RUBRIC, checks={"totals": check}))


def test_what_a_check_saw_by_running_counts(tmp_path: Path) -> None:
    task = write_harbor(GOOD, tmp_path)
    free = audited(tmp_path, check_of(task, Problem("no-op-full", "no-op: doing nothing solves it"))).tasks[0]
    assert free.rejections == ("verifier_too_weak",) and free.reasons == (
        "no-op-passes: no-op: doing nothing solves it",
    )
    emptied = audited(tmp_path, check_of(task, Problem("empty-full", "empty: solves it"))).tasks[0]
    assert emptied.rejections == ("verifier_too_weak",) and emptied.reasons == ("empty-passes: empty: solves it",)
    fails = audited(tmp_path, check_of(task, Problem("oracle-fails", "oracle: not solved"))).tasks[0]
    assert fails.broken == ("oracle: not solved",) and not fails.rejections
    half = audited(tmp_path, check_of(task, no_op_passed=1))
    assert half.checked == 1 and half.tasks[0].dimensions["graded"] == 0.25


def test_a_check_of_another_version_of_the_task_counts_for_nothing(tmp_path: Path) -> None:
    task = write_harbor(GOOD, tmp_path)
    found = audited(tmp_path, check_of(task, Problem("oracle-fails", "x"), digest="0" * 64))
    assert found.checked == 0 and len(found.accepted) == 1
