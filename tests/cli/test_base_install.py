"""A base install: whatever a command needs beyond it is named with its extra, never called a bug."""

from __future__ import annotations

import ast
import json
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import yaml

from t1cli.cli.extras import EXTRA_OF
from t1cli.spec.load import load_experiment

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
BASE = {"typer", "pydantic", "pydantic_core", "annotated_types", "omegaconf", "yaml", "rich", "psutil", "click"}
ELSEWHERE = {
    "ctrf": "the verifiers' interpreter",
    "pytest": "the verifiers' interpreter",
    "harbor": "Harbor's interpreter",
    "slime": "slime's image",
    "pybase64": "slime's image; base64 otherwise",
    "google": "protobuf, which tensorboard brings",
}
DISTRIBUTION = {"megatron": "megatron-core", "tree_sitter": "tree-sitter", "tree_sitter_bash": "tree-sitter-bash"}


def packages_of(extra: str) -> set[str]:
    """Names of an extra's requirements, those of the extras that it names included."""
    found = set()
    for requirement in PROJECT["optional-dependencies"][extra]:
        own = re.match(r"t1cli\[(.*)\]", requirement)
        if own:
            found |= {name for other in own[1].split(",") for name in packages_of(other)}
        else:
            found.add(re.split(r"[\[<>=; ]", requirement)[0])
    return found


def test_every_package_that_t1_imports_is_in_the_base_install_or_in_the_extra_that_is_named() -> None:
    imported: set[str] = set()
    for path in sorted((ROOT / "t1cli").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                imported |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                imported.add(node.module.partition(".")[0])
    optional = imported - set(sys.stdlib_module_names) - BASE - set(ELSEWHERE) - {"t1cli", "memory_model"}
    assert optional - set(EXTRA_OF) == set()
    missing = {name for name, extra in EXTRA_OF.items() if DISTRIBUTION.get(name, name) not in packages_of(extra)}
    assert missing == set()


def test_no_extra_lists_what_another_one_that_it_names_has() -> None:
    for extra, requirements in PROJECT["optional-dependencies"].items():
        named = [re.match(r"t1cli\[(.*)\]", one) for one in requirements]
        inherited = {p for match in named if match for other in match[1].split(",") for p in packages_of(other)}
        own = {re.split(r"[\[<>=; ]", one)[0] for one, match in zip(requirements, named, strict=True) if not match}
        assert not own & inherited, extra


RUN = """
import importlib.abc, json, sys
class Absent(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ABSENT:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return None
sys.meta_path.insert(0, Absent())
from typer.testing import CliRunner
from t1cli.cli.app import app
said = []
for arguments in COMMANDS:
    result = CliRunner().invoke(app, arguments)
    said.append([result.exit_code, result.output])
print(json.dumps(said))
"""


def said_by_a_base_install(commands: list[list[str]], tmp_path: Path) -> list[tuple[int, str]]:
    program = f"ABSENT = {sorted(EXTRA_OF)!r}\nCOMMANDS = {commands!r}\n{RUN}"
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=300,
        env={"PATH": "/bin", "HOME": str(tmp_path), "PYTHONPATH": str(ROOT)},
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    return [(code, text) for code, text in json.loads(done.stdout)]


def test_commands_name_the_extra_that_they_need(tmp_path: Path) -> None:
    run = tmp_path / "runs" / "r" / "attempt_1"
    (run / "rollouts").mkdir(parents=True)
    (run / "rollouts" / "rollout_000000.npz").write_bytes(b"")
    (run / "record.json").write_text("{}")
    spec = load_experiment(ROOT / "experiments/quickstart/experiment.yaml").spec
    (run / "spec.resolved.yaml").write_text(yaml.safe_dump(spec.model_dump(mode="json")))
    (tmp_path / "script.sh").write_text("python3 train.py\n")
    task = next(path for path in sorted((ROOT / "experiments/quickstart/tasks").iterdir()) if path.is_dir())
    shutil.copytree(task, tmp_path / "tasks" / task.name)
    wanted = {
        ("numpy", "audit"): ["audit", str(run)],
        ("httpx", "audit"): [
            "tasks",
            "audit",
            str(tmp_path / "tasks"),
            "--judge",
            "http://127.0.0.1:9",
            "--judge-model",
            "m",
        ],
        ("numpy", "embedded"): ["pretrain-value", str(run), "--output", str(tmp_path / "v")],
        ("uvicorn", "pool"): ["pool", "serve", "--directory", str(tmp_path / "pool")],
        ("tree_sitter", "convert"): ["convert", str(tmp_path / "script.sh")],
    }
    said = said_by_a_base_install(list(wanted.values()), tmp_path)
    for ((package, extra), arguments), (code, text) in zip(wanted.items(), said, strict=True):
        assert code == 3, (arguments, text)
        assert f"needs {package}" in text and f"t1cli[{extra}]" in text, text
