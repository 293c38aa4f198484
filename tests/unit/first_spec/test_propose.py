"""What answers lead to: a file that loads, and that the plan accepts as far as the answers go."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from t1cli.errors import BadInput, Refused
from t1cli.first_spec.answers import Answers
from t1cli.first_spec.propose import propose, write
from t1cli.spec.embedded_engine import unsupported
from t1cli.spec.load import load_experiment
from t1cli.terminal.tasks.check_pool import PoolCheck, TaskCheck

MakeAnswers = Callable[..., Answers]

GPU_ANSWERS = [
    {"gpus": 1, "gpu_kind": "h100", "model": "qwen3-0.6b", "algorithm": "grpo"},
    {"gpus": 8, "gpu_kind": "h200", "model": "qwen3-8b", "algorithm": "grpo", "pool": ("http://pool-1:18081",) * 2},
    {"gpus": 16, "gpu_kind": "h100", "model": "qwen3-8b", "algorithm": "ppo", "weights": "/models/qwen"},
]


def test_without_gpus_it_is_a_campaign_of_the_embedded_engine(answers: MakeAnswers, tmp_path: Path) -> None:
    proposal = propose(answers(), tmp_path / "experiment.yaml")
    write(proposal, tmp_path / "experiment.yaml")
    loaded = load_experiment(tmp_path / "experiment.yaml")
    assert proposal.plan.accepted_for_launch
    assert [finding.severity for finding in proposal.plan.findings] == ["notice"]
    assert unsupported(loaded.spec) == {}
    assert loaded.spec.rollout.batch_size >= 8 and loaded.spec.rollout.batch_size % 3 == 0
    assert loaded.resolve_path(loaded.spec.tasks.path) == (tmp_path / "tasks").resolve()


@pytest.mark.parametrize("given", GPU_ANSWERS, ids=lambda given: f"{given['gpus']}-{given['model']}")
def test_on_gpus_nothing_is_open_but_what_was_not_said(
    answers: MakeAnswers, tmp_path: Path, given: dict[str, Any]
) -> None:
    proposal = propose(answers(**given), tmp_path / "experiment.yaml")
    errors = {finding.id for finding in proposal.plan.findings if finding.severity == "error"}
    assert proposal.plan.verdict in ("FITS", "TIGHT")
    assert errors == (set() if "weights" in given else {"T-blank"})
    write(proposal, tmp_path / "experiment.yaml")
    spec = load_experiment(tmp_path / "experiment.yaml").spec
    train = spec.topology.train_nodes * (spec.topology.train_gpus_per_node or spec.hardware.gpus_per_node)
    assert (train if spec.topology.colocated else train + spec.topology.rollout_gpus) == given["gpus"]


def test_the_longest_instruction_has_room(answers: MakeAnswers, tmp_path: Path) -> None:
    (tmp_path / "tasks" / "count-lines" / "instruction.md").touch()
    made = answers()
    (made.tasks / "count-lines" / "instruction.md").write_text("word " * 300)
    rollout = yaml.safe_load(propose(made, tmp_path / "e.yaml").text)["rollout"]
    assert rollout["context_tokens"] >= 1500 + 3 * (rollout["max_new_tokens_per_turn"] + rollout["observation_tokens"])


def test_tasks_that_report_one_bit_get_a_binary_reward(answers: MakeAnswers, tmp_path: Path) -> None:
    made = answers()
    (made.tasks / "sort-names" / "tests" / "test.sh").write_text("#!/bin/sh\necho 1 > /logs/verifier/reward.txt\n")
    proposal = propose(made, tmp_path / "e.yaml")
    found = yaml.safe_load(proposal.text)
    assert "reward/binary" in found["presets"] and found["tasks"]["card"]["verifier"] == "binary"
    assert "R1" not in {finding.id for finding in proposal.plan.findings}


@pytest.mark.parametrize("gpus", [{}, GPU_ANSWERS[2]], ids=["here", "ppo-on-gpus"])
def test_the_scale_is_the_one_that_tasks_check_would_suggest(
    answers: MakeAnswers, tmp_path: Path, gpus: dict[str, Any]
) -> None:
    made = answers(**gpus)
    for name, tests in {"count-lines": 1, "sort-names": 3, "make-folder": 5}.items():
        file = made.tasks / name / "tests" / "test_outputs.py"
        file.write_text("".join(f"def test_{n}(): assert False\n" for n in range(tests)))
    proposal = propose(made, tmp_path / "e.yaml")
    (tmp_path / "e.yaml").write_text(proposal.text)
    spec = load_experiment(tmp_path / "e.yaml").spec
    checked = PoolCheck(tuple(TaskCheck(f"t{n}", "", (), tests=n) for n in (1, 3, 5)), 0)
    assert spec.reward.kind == "ctrf_count" and spec.reward.scale == checked.suggested_scale == 5
    # A lost report pays what a solved task in the middle earns, and no plan warns of either.
    assert spec.reward.fallback.value == 3 / 5
    assert not {"R2", "R12"} & {finding.id for finding in proposal.plan.findings}
    assert "# scale: the 90th percentile of tests per task (3 in the middle, 5 at most)" in proposal.text


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"gpus": 8, "gpu_kind": "h200", "model": "qwen3-9b"}, "did you mean qwen3-8b?"),
        ({"gpus": 9, "gpu_kind": "h200", "model": "qwen3-8b"}, "whole nodes of 8"),
        ({"model": "qwen3-8b"}, "--model t1-tiny"),
        ({"name": "Mine!"}, "small letters"),
    ],
)
def test_answers_that_cannot_be(answers: MakeAnswers, tmp_path: Path, changes: dict[str, Any], said: str) -> None:
    with pytest.raises(BadInput) as refused:
        propose(answers(**changes), tmp_path / "e.yaml")
    assert said in refused.value.diagnostics[0].hint


def test_a_model_that_does_not_fit_says_how_far_it_is_off(answers: MakeAnswers, tmp_path: Path) -> None:
    with pytest.raises(Refused, match=r"no layout of llama-3.1-405b fits on 2 GPUs of 79.1 GiB; nearest .*79.1 GiB"):
        propose(answers(gpus=2, gpu_kind="h100", model="llama-3.1-405b", algorithm="grpo"), tmp_path / "e.yaml")


def test_a_file_that_came_into_being_meanwhile_is_left_alone(answers: MakeAnswers, tmp_path: Path) -> None:
    proposal = propose(answers(), tmp_path / "e.yaml")
    (tmp_path / "e.yaml").write_text("mine")
    with pytest.raises(Refused):
        write(proposal, tmp_path / "e.yaml")
    assert (tmp_path / "e.yaml").read_text() == "mine"
