"""A built wheel finds its presets and experiments, and puts no package beside t1cli and memory_model."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from t1cli.spec.locate import data_root, experiment_names, preset_names

ASK = """
from pathlib import Path
from t1cli.spec.load import load_experiment
from t1cli.spec.locate import data_root, experiment_names, preset_names
loaded = load_experiment(Path("quickstart"))
print(data_root())
print(len(preset_names()), len(experiment_names()), loaded.digest, loaded.resolve_path(loaded.spec.tasks.path).is_dir())
"""


def test_a_built_wheel_carries_presets_and_experiments(tmp_path: Path) -> None:
    build = tmp_path / "build"
    steps = ["egg_info", "--egg-base", str(tmp_path), "build_py", "--build-lib", str(build)]
    subprocess.run([sys.executable, "setup.py", "-q", *steps], cwd=data_root(), check=True, capture_output=True)
    assert {path.name for path in build.iterdir()} == {"t1cli", "memory_model"}
    command = [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(build)!r})\n{ASK}"]
    answer = subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, text=True).stdout.splitlines()
    assert Path(answer[0]) == build / "t1cli" / "_data"
    assert answer[1].split()[:2] == [str(len(preset_names())), str(len(experiment_names()))]
    assert answer[1].endswith("True")
