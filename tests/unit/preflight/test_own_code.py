"""A spec names somebody's code: whatever it does while it is imported, the check says so, and nothing else happens."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.preflight.conftest import Ask, MakeContext

FINE = "async def play(trial): ...\ndef keep(args, samples): return True\n"
HOSTILE = {
    "exits": ("raise SystemExit(0)\n", "raised SystemExit: 0"),
    "interrupts": ("raise KeyboardInterrupt\n", "raised KeyboardInterrupt"),
    "raises_its_own": ("class Odd(BaseException): ...\nraise Odd('odd')\n", "raised Odd: odd"),
    "ends_the_process": ("import os\nos._exit(0)\n", "said nothing"),
    "dies": ("import os\nos.kill(os.getpid(), 9)\n", "ended with -9"),
    "looks_names_up": ("def __getattr__(name): raise RuntimeError('boo')\n", "raised RuntimeError: boo"),
    "leaves": ('import sys\nprint(\'{"problem": "", "hint": ""}\')\nsys.exit(3)\n', "raised SystemExit: 3"),
}
CHECKS = {"harness.importable": "rollout.harness={}:play", "filter.importable": "rollout.dynamic_filter={}.keep"}


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory that the user's modules are looked for in."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("kind", HOSTILE)
def test_what_an_import_does_is_told_by_the_check_alone(
    ask: Ask, context_of: MakeContext, place: Path, check: str, kind: str
) -> None:
    code, said = HOSTILE[kind]
    (place / f"own_{kind}.py").write_text(code)
    saw = ask(check, context_of("quickstart", CHECKS[check].format(f"own_{kind}")))
    assert saw.status == "fail" and said in saw.found, saw


@pytest.mark.parametrize("check", CHECKS)
def test_code_that_prints_and_leaves_threads_is_fine(
    ask: Ask, context_of: MakeContext, place: Path, check: str
) -> None:
    endless = "import threading, time\nthreading.Thread(target=lambda: time.sleep(600)).start()\n"
    (place / "own_talk.py").write_text(f"print('hello')\n{endless}{FINE}")
    assert ask(check, context_of("quickstart", CHECKS[check].format("own_talk"))).status == "pass"


def test_the_parent_of_a_module_that_is_not_there_may_exit_too(ask: Ask, context_of: MakeContext, place: Path) -> None:
    (place / "own_parent").mkdir()
    (place / "own_parent" / "__init__.py").write_text("raise SystemExit(0)\n")
    saw = ask("harness.importable", context_of("quickstart", "rollout.harness=own_parent.child:play"))
    assert saw.status == "fail" and "SystemExit" in saw.found


@pytest.mark.parametrize("check", CHECKS)
def test_the_command_answers_in_one_object_and_is_not_ready(place: Path, check: str) -> None:
    (place / "own_end.py").write_text("import os\nprint('not json')\nos._exit(0)\n")
    argv = ["preflight", "quickstart", "--json", "--only", check, "--runs-dir", str(place / "runs")]
    program = "from t1cli.cli.app import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", program, *argv, "--set", CHECKS[check].format("own_end")],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    (found,) = json.loads(done.stdout)["checks"]
    assert done.returncode == 1 and found["status"] == "fail" and "Traceback" not in done.stderr, done
