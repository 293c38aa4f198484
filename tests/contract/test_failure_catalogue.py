"""Every row of the failure catalogue is caught where it says, and a test proves it."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from t1cli.catalogue.catchers import catchers
from t1cli.catalogue.entry import FAMILIES, Entry, entries
from t1cli.catalogue.page import PAGE_FILE, page_text
from t1cli.catalogue.proofs import proofs
from t1cli.plan.build import build_plan
from t1cli.spec.experiment import ExperimentSpec
from t1cli.spec.fields import all_keys
from t1cli.spec.load import load_experiment
from t1cli.spec.locate import data_root

# As of 2026-11-30: (row, stage) pairs that nothing catches yet, and rows that no test proves. A pair leaves this
# list with the commit that closes it; nothing may be added.
NOT_YET_CAUGHT: set[tuple[str, str]] = set()
NOT_YET_PROVEN: set[str] = set()

_KEY = re.compile(rf"\b(?:{'|'.join(ExperimentSpec.model_fields)})\.[a-z_]+(?:\.[a-z_]+)*")


def test_all_61_rows_are_there_in_order() -> None:
    numbers = {letter: [int(id_[1:]) for id_ in entries() if id_[0] == letter] for letter in "MFRSCL"}
    counts = {"M": 10, "F": 7, "R": 12, "S": 11, "C": 10, "L": 11}
    assert numbers == {letter: list(range(1, count + 1)) for letter, count in counts.items()}
    assert list(dict.fromkeys(entry.family for entry in entries().values())) == list(FAMILIES.values())


def test_every_row_is_caught_in_every_stage_that_it_names() -> None:
    holes = {
        (id_, stage)
        for id_, entry in entries().items()
        for stage in entry.stages
        if stage not in {catcher.stage for catcher in catchers().get(id_, ())}
    }
    assert holes == NOT_YET_CAUGHT


def test_every_row_is_proven_by_a_test() -> None:
    assert {id_ for id_ in entries() if not proofs().get(id_)} == NOT_YET_PROVEN


# Beginning of a test's path, longest first where one begins like another, to the stages whose code it tests.
STAGES_TESTED = {
    "presets/watch/tests": {"watch"},
    "tests/cli/test_slime_golden": {"launch"},
    "tests/contract/slime_live": {"launch"},
    "tests/contract/test_engine_client": {"rollout"},
    "tests/unit/cluster": {"launch"},
    "tests/unit/embedded": {"train"},
    "tests/unit/launch": {"launch", "report"},
    "tests/unit/run": {"launch", "report"},
    "tests/unit/memory_model": {"plan"},
    "tests/unit/plan": {"plan"},
    "tests/unit/plugin/test_checkpoints": {"launch", "train"},
    "tests/unit/plugin/test_trial_worker": {"launch"},
    "tests/unit/plugin": {"train", "rollout"},
    "tests/unit/preflight": {"preflight"},
    "tests/unit/report": {"report"},
    "tests/unit/slime": {"plan", "launch"},
    "tests/unit/terminal/pool/test_pool_client": {"rollout"},
    "tests/unit/terminal/pool/test_postmortem_pool": {"rollout", "pool"},
    "tests/unit/terminal/pool": {"pool"},
    "tests/unit/terminal": {"rollout"},
    "tests/unit/watch": {"watch"},
}


def test_every_row_is_proven_in_every_stage_that_it_names() -> None:
    holes = {
        (id_, stage)
        for id_, entry in entries().items()
        for stage in entry.stages
        if not any(stage in stages_of(test) for test in proofs().get(id_, ()))
    }
    assert holes == NOT_YET_CAUGHT


def stages_of(test: str) -> set[str]:
    return next((stages for beginning, stages in STAGES_TESTED.items() if test.startswith(beginning)), set())


def test_only_code_that_a_command_or_a_hook_reaches_is_credited() -> None:
    """A reference that tests alone use catches nothing in a campaign."""
    commands = data_root() / "t1cli" / "cli"
    reached = reached_from(*(f"t1cli.cli.{path.stem}" for path in commands.glob("*.py")))
    credited = {catcher.where for these in catchers().values() for catcher in these if catcher.where.endswith(".py")}
    unused = {where for where in credited if where.removesuffix(".py").replace("/", ".") not in reached}
    assert unused == set()
    words = {word for module in reached for word in words_of(module)}
    tagged = {c.name for these in catchers().values() for c in these if c.kind == "code" and "." in c.name}
    assert {name for name in tagged if name.partition(".")[2] not in words} == set()


def reached_from(*roots: str) -> set[str]:
    """Modules that these import, lazily too, or name by a dotted path, as hooks and detached processes are named."""
    root = data_root()
    found, waiting = set[str](), list(roots)
    while waiting:
        name = waiting.pop()
        path = next((p for p in module_files(root, name) if p.is_file()), None)
        if path is None or name in found:
            continue
        found.add(name)
        text = path.read_text(encoding="utf-8")
        waiting += [name.rpartition(".")[0], *_DOTTED.findall(text)]
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ImportFrom) and node.module:
                waiting += [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
    return found


_DOTTED = re.compile(r"\b(?:t1cli|memory_model)(?:\.[a-z_0-9]+)+")


def module_files(root: Path, name: str) -> list[Path]:
    place = root / name.replace(".", "/")
    return [place.with_suffix(".py"), place / "__main__.py", place / "__init__.py"]


def words_of(module: str) -> set[str]:
    """Names that a module uses: its own definitions are no use."""
    path = next(p for p in module_files(data_root(), module) if p.is_file())
    tree = ast.parse(path.read_text(encoding="utf-8"))
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    names |= {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    names |= {alias.name for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for alias in node.names}
    texts = {str(node.value) for node in ast.walk(tree) if isinstance(node, ast.Constant)}
    return names | {text.rpartition(".")[2].rpartition(":")[2] for text in texts if "t1cli." in text}


def test_code_and_tests_name_rows_that_exist() -> None:
    assert set(catchers()) <= set(entries())
    assert set(proofs()) <= set(entries())


@pytest.mark.parametrize("entry", entries().values(), ids=lambda entry: entry.id)
def test_the_words_of_a_row_hold(entry: Entry) -> None:
    keys = {key for key, _ in all_keys(ExperimentSpec)}
    named = set(_KEY.findall(f"{entry.fix} {entry.symptom} {entry.mechanism}"))
    assert {key for key in named if key not in keys and not any(k.startswith(f"{key}.") for k in keys)} == set()
    assert all(len(text) > 10 for text in (entry.title, entry.symptom, entry.first_guess, entry.mechanism, entry.fix))


@pytest.mark.parametrize("entry", [e for e in entries().values() if e.example], ids=lambda entry: entry.id)
def test_the_example_of_a_row_shows_it(entry: Entry) -> None:
    name, *settings = entry.example.replace("--set ", "").split()
    plan = build_plan(load_experiment(Path(name), settings))
    assert entry.id in {finding.id for finding in plan.findings}


def test_what_a_plan_tells_has_an_example() -> None:
    told = {id_ for id_, these in catchers().items() if any(c.kind == "finding" for c in these)}
    assert {entry.id for entry in entries().values() if entry.example} == told


def test_the_committed_page_is_the_generated_one() -> None:
    page = data_root() / "docs" / "reference" / PAGE_FILE
    assert page.read_text(encoding="utf-8") == page_text(), "run: make docs"
