"""Ctrl-C at any moment of a start: 130 and one word, never a trace of what was being imported."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

# Every import of the process is a moment; the signal comes at the one that is asked for.
PROGRAM = """
import builtins, os, signal, sys
whole, left = builtins.__import__, [{count}]
def counted(name, *rest):
    left[0] -= 1
    if left[0] == 0:
        os.kill(os.getpid(), signal.SIGINT)
    return whole(name, *rest)
from t1cli.cli.entry import main
builtins.__import__ = counted
sys.argv = ["t1", "schema"]
main()
"""


def at_import(count: int, prepare: str = "") -> subprocess.CompletedProcess[str]:
    program = prepare + PROGRAM.format(count=count)
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300)


@pytest.mark.parametrize("count", [1, 40, 400, 1200])
def test_while_the_commands_are_imported(count: int) -> None:
    done = at_import(count)
    assert (done.returncode, done.stderr) == (130, "interrupted\n")


def test_a_start_that_a_shell_put_into_the_background_is_not_interrupted() -> None:
    done = at_import(40, "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)\n")
    assert done.returncode == 0 and done.stdout.startswith("{")


def test_a_command_that_has_begun_cleans_up_behind_itself() -> None:
    program = """
import os, signal, typer
from t1cli.cli.boundary import guarded
from t1cli.cli.interruption import leave_at_once
leave_at_once()
def command():
    try:
        os.kill(os.getpid(), signal.SIGINT)
    finally:
        print("cleaned up", flush=True)
app = typer.Typer()
app.command()(guarded(command))
app()
"""
    environment = {**os.environ, "COLUMNS": "80"}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300, env=environment)
    assert (done.returncode, done.stdout, done.stderr) == (130, "cleaned up\n", "interrupted\n")
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
