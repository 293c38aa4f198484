"""Rooms import in one direction only, and the planning path stays light."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
HEAVY = ("torch", "ray", "wandb", "fastapi", "numpy", "slime", "sglang", "httpx", "uvicorn", "starlette")

VIEWED = {
    *("spec", "slime", "plan", "preflight", "run", "launch", "watch", "report"),
    *("terminal", "first_spec", "catalogue"),
}
"""Rooms whose answers a person sees."""

# room -> rooms of t1cli that it may import (itself and the leaves, those with no rooms, always); lazily, too.
MAY_IMPORT = {
    "errors": set(),
    "machine_problem": set(),
    "records": set(),
    "secret_names": set(),
    "spec": set(),
    "slime": {"spec"},
    "plan": {"spec", "slime"},
    "preflight": {"spec", "plan", "terminal", "cluster"},
    "run": {"spec", "plan", "preflight"},
    "launch": {"spec", "slime", "plan", "preflight", "cluster", "embedded", "run"},
    "watch": {"spec", "plan", "preflight", "launch", "cluster", "run"},
    "report": {"spec", "plan", "preflight", "launch", "watch", "terminal", "run"},
    "cluster": {"spec"},
    "terminal": {"spec"},
    "plugin": {"spec", "terminal", "launch", "cluster", "run"},
    "embedded": {"spec", "terminal", "launch", "cluster", "run"},
    "first_spec": {"spec", "plan", "terminal"},
    "catalogue": {"spec", "plan", "preflight", "watch"},
    "ui": VIEWED,
    "cli": VIEWED | {"ui", "cluster", "embedded"},
}
# (room, room) -> how the path of every module of the first begins that may import the second.
ONLY_THROUGH = {
    ("launch", "embedded"): "t1cli/launch/embedded_backend.py",
    # A plan checks the arguments that a launch would hand to slime, and knows slime nowhere else.
    ("plan", "slime"): "t1cli/plan/findings/arguments.py",
    ("launch", "slime"): "t1cli/launch/slime/",
}
LIGHT_ROOMS = ("spec", "slime", "plan")


def imports_of(path: Path) -> list[str]:
    """Every module name imported anywhere in a file."""
    names: list[str] = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            names.append(node.module)
    return names


def room_of(path: Path) -> str:
    return path.relative_to(ROOT / "t1cli").parts[0].removesuffix(".py")


FILES = sorted((ROOT / "t1cli").rglob("*.py"))


def test_rooms_import_earlier_rooms_only() -> None:
    assert [fault for path in FILES for fault in faults_of_direction(path)] == []


def faults_of_direction(path: Path) -> list[str]:
    room, shown = room_of(path), str(path.relative_to(ROOT))
    if room == "__init__":
        return []
    if room not in MAY_IMPORT:
        return [f"{room} is a room without an import rule"]
    faults = []
    for name in imports_of(path):
        target = name.split(".")[1] if name.startswith("t1cli.") else room
        if target in (room, "errors", "machine_problem", "secret_names", "records"):
            continue
        if target not in MAY_IMPORT[room]:
            faults.append(f"{shown} imports {name}: {room} may not know {target}")
        only = ONLY_THROUGH.get((room, target), shown)
        if not shown.startswith(only):
            faults.append(f"{shown} imports {name}: only {only}… may")
    return faults


def test_one_room_owns_each_heavy_dependency() -> None:
    assert [fault for path in FILES for fault in faults_of_ownership(path)] == []


def faults_of_ownership(path: Path) -> list[str]:
    room, names = room_of(path), {name.split(".")[0] for name in imports_of(path)}
    forbidden = {
        "rich": room != "ui",
        "ray": room != "cluster",
        "torch": room == "terminal",
        **{name: True for name in HEAVY if room in LIGHT_ROOMS},
    }
    return [f"{path.relative_to(ROOT)} imports {name}" for name in sorted(names) if forbidden.get(name, False)]


def test_memory_model_is_standard_library_only() -> None:
    allowed = set(sys.stdlib_module_names) | {"memory_model"}
    for path in sorted((ROOT / "memory_model").rglob("*.py")):
        if path.name.startswith("oracle"):  # its oracle imports torch and megatron lazily
            continue
        names = {name.split(".")[0] for name in imports_of(path)}
        assert names <= allowed, f"{path.relative_to(ROOT)} imports {names - allowed}"


PYDANTIC = {"pydantic", "pydantic_core", "annotated_types", "typing_extensions", "typing_inspection"}


@pytest.mark.parametrize(
    "arguments", [["--help"], ["plan", "experiments/quickstart/experiment.yaml", "--json"], ["explain", "S4", "M2"]]
)
def test_help_plan_and_explain_import_nothing_heavy(arguments: list[str]) -> None:
    program = (
        "import sys\n"
        "from typer.testing import CliRunner\n"
        "from t1cli.cli.app import app\n"
        f"result = CliRunner().invoke(app, {arguments!r})\n"
        "assert result.exit_code == 0, result.output\n"
        f"print([name for name in {HEAVY!r} if name in sys.modules])\n"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT, timeout=120)
    assert result.returncode == 0, result.stderr
    assert result.stdout.strip() == "[]"


def test_what_runs_in_harbors_interpreter_asks_for_nothing_that_harbor_does_not_bring() -> None:
    program = (
        "import sys, importlib\n"
        "sys.path.insert(0, 'tests/contract/harbor_double')\n"
        "before = set(sys.modules)\n"
        "for name in ('worker', 'bubblewrap', 'terminus', 'environments'):\n"
        "    importlib.import_module('t1cli.terminal.sandbox.harbor.' + name)\n"
        "found = {name.partition('.')[0] for name in set(sys.modules) - before} - set(sys.stdlib_module_names)\n"
        "print(sorted(name for name in found if not name.startswith('_')))\n"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT, timeout=120)
    assert result.returncode == 0, result.stderr
    found = set(ast.literal_eval(result.stdout))
    assert {"harbor", "t1cli"} <= found <= {"harbor", "t1cli", "yaml"} | PYDANTIC
