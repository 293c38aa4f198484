"""What a script takes from outside: the placeholder is called what `--set` gives, and its lines are told."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from t1cli.cli.app import app
from t1cli.slime.script.bash.interpret import start
from t1cli.slime.script.bash.state import State, shown
from t1cli.slime.script.bash.syntax import Source

SCRIPT = """#!/bin/bash
RUN=small-$(date +%Y%m%d)
CKPT=(--hf-checkpoint /models/small --save /checkpoints/$RUN --load /checkpoints/$RUN --save-interval 20)
ray job submit --runtime-env-json="{\\"env_vars\\": {\\"RUN_NAME\\": \\"$RUN\\"}}" -- python3 train.py \\
  "${CKPT[@]}" --num-rollout 100 --rollout-batch-size 8 --n-samples-per-prompt 2 --global-batch-size 16 --lr 1e-6 \\
  --use-wandb --wandb-project p --wandb-group $RUN --colocate
"""


def t1(*words: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, list(words))
    return result.exit_code, result.stdout, " ".join(result.stderr.split())


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "run-small.sh"
    path.write_text(SCRIPT)
    return path


def test_the_hint_can_be_pasted_and_leaves_no_placeholder(script: Path, tmp_path: Path) -> None:
    code, _, said = t1("convert", str(script), "--output", str(tmp_path / "first.yaml"))
    assert code == 0 and "run-small.sh:2: <RUN> is `small-<$(date)>`, which holds the output of `date +%Y%m%d`" in said
    (setting,) = re.findall(r"convert with (--set \S+=)VALUE", said)
    code, _, said = t1(
        "convert", str(script), "--output", str(tmp_path / "second.yaml"), *shlex.split(f"{setting}small-1")
    )
    text = (tmp_path / "second.yaml").read_text()
    assert code == 0 and "<" not in said and "<RUN>" not in text and "actor_dir: /checkpoints/small-1" in text


def test_every_line_of_a_placeholder_is_named_and_no_search_is_offered(script: Path, tmp_path: Path) -> None:
    spec = tmp_path / "spec.yaml"
    t1("convert", str(script), "--output", str(spec))
    lines = [n for n, line in enumerate(spec.read_text().splitlines(), 1) if "<RUN>" in line and line[0] != "#"]
    code, told, _ = t1("plan", str(spec))
    told = " ".join(told.split())
    assert code == 1 and len(lines) == 4
    assert f"it stands in {spec}:{', '.join(map(str, lines))} --> {spec}:{lines[0]}" in told
    assert "--set RUN=VALUE" in told and "--search" not in told
    assert "T-blank" not in t1("plan", str(script), "--set", "RUN=small-1")[1]


def test_every_placeholder_of_a_text_refuses(script: Path, tmp_path: Path) -> None:
    script.write_text(SCRIPT.replace("/checkpoints/$RUN ", '"$BASE/$USER_NAME/n$((RANDOM_NUMBER[0] + 1))" '))
    told = t1("plan", str(script), "--set", "RUN=small-1")[1]
    assert re.findall(r"T-blank <(\S+)> ", told) == ["BASE", "USER_NAME", "((RANDOM_NUMBER[0]+1))"]


@pytest.mark.parametrize(
    ("snippet", "placeholder", "given"),
    [
        ("A=x-$(date +%F); B=y-$(date +%T)", "<A>", "1"),
        ("A=$1", "<A>", "1"),
        ("N=$(nproc); A=$((N * 2))", "<A>", "1"),
        ("A=base; A+=-$(hostname)", "<A>", "1"),
        ("export A=$(cat /etc/hostname)", "<A>", "1"),
        ("A=${BASE}/x", "<BASE>/x", "<BASE>/x"),
    ],
)
def test_what_no_variable_is_called_goes_by_the_variable_that_holds_it(
    snippet: str, placeholder: str, given: str, tmp_path: Path
) -> None:
    def value(**overrides: str) -> str:
        state = State(overrides, tmp_path, directory=str(tmp_path))
        start(tmp_path / "script.sh", state).run(Source(f"{snippet}\n", shown="script.sh"))
        return shown(state.variables["A"])

    assert value() == placeholder and value(A="1") == given


def test_what_no_variable_holds_is_not_asked_for_by_set(tmp_path: Path) -> None:
    script = tmp_path / "run.sh"
    script.write_text(SCRIPT.replace("--wandb-group $RUN", "--wandb-group g-$(date +%F)"))
    code, text, said = t1("convert", str(script))
    assert code == 0 and "<$(date)2> is the output of `date +%F`; no variable holds it" in said
    assert "--set $(date)" not in text + said
    code, told, _ = t1("plan", str(script), "--set", "RUN=small-1")
    assert code == 1 and "--set $(date)" not in told and "in the spec" in " ".join(told.split())
    script.write_text(SCRIPT.replace("--rollout-batch-size 8", "--rollout-batch-size $(nproc)"))
    code, _, said = t1("convert", str(script))
    assert code == 1 and "--rollout-batch-size needs a value that is not known: put <$(nproc)> into the script" in said


def test_a_placeholder_of_a_spec_is_not_sent_to_convert() -> None:
    code, told, _ = t1("plan", "qwen3-8b-grpo", "--set", "model.checkpoints.hf=<WEIGHTS>")
    told = " ".join(told.split())
    assert code == 1 and "T-blank <WEIGHTS> is a placeholder that nobody has filled in --> --set" in told
    assert "fix: write it into the spec, or --set model.checkpoints.hf=VALUE" in told and "convert" not in told


def test_a_setting_that_changes_nothing_is_said(script: Path) -> None:
    script.write_text("LR=1e-6\n" + SCRIPT.replace("--lr 1e-6", "--lr $LR"))
    code, text, said = t1("convert", str(script), "--set", "LR=2e-6", "--set", "RNU=x", "--set", "RUN=y")
    assert code == 0 and "1.0e-06" in text and "2.0e-06" not in text
    assert "--set LR changes nothing: the script sets LR itself" in said
    assert "--set RNU changes nothing: the script does not read RNU" in said and "--set RUN" not in said
    assert "changes nothing" not in text


def test_a_setting_of_a_planned_script_is_a_variable_a_key_or_refused(script: Path) -> None:
    script.write_text("LR=1e-6\n" + SCRIPT.replace("--lr 1e-6", "--lr $LR"))
    code, _, said = t1("plan", str(script), "--set", "RNU=x", "--set", "LR=2e-6")
    assert code == 2 and "reads no RNU" in said and "did you mean `RUN`?" in said and "sets LR itself" in said
    code, told, _ = t1("plan", str(script), "--set", "RUN=x", "--set", "name=other", "--json")
    assert json.loads(told)["name"] == "other" and "T-blank" not in told


@pytest.mark.parametrize(
    "snippet",
    [
        "A=${A:-default}",
        "echo $A; A=after",
        "A=base; A+=-$(date)",
        'if [ -z "$A" ]; then A=x; fi',
        'python3 x.py "${A[@]}"',
        "B=$((A + 1))",
        'f() { local b="$A"; }; f',
    ],
)
def test_whatever_looks_at_a_variable_reads_it(snippet: str, tmp_path: Path) -> None:
    state = State({"A": "1", "NEVER": "2"}, tmp_path, directory=str(tmp_path))
    start(tmp_path / "script.sh", state).run(Source(f"{snippet}\n", shown="script.sh"))
    assert "A" in state.read and "A" not in state.overwritten and "NEVER" not in state.read
