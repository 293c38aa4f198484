"""Engines: weights, KV cache, and the trials they can hold."""

from __future__ import annotations

from pathlib import Path

import pytest

from memory_model import model
from t1cli.plan.inference import kv_bytes_per_token, plan_engine
from t1cli.plan.topology import plan_topology
from t1cli.spec.load import load_experiment

T1 = "t1-strategy15k"


@pytest.mark.parametrize(
    ("name", "tp", "bytes_per_token"),
    [
        ("Qwen3-8B", 1, 36 * 2 * 8 * 128 * 2),
        ("Qwen3.5-122B-A10B", 2, 12 * 2 * 2 * 256 * 2),  # 12 of 48 layers are full attention
        ("Qwen3.5-122B-A10B", 8, 12 * 2 * 8 * 256 * 2),  # 2 KV groups copied to 8 ranks
        ("DeepSeek-V3", 1, 61 * (512 + 64) * 2),
    ],
)
def test_kv_bytes_of_a_token(name: str, tp: int, bytes_per_token: int) -> None:
    assert kv_bytes_per_token(model(name), tp) == bytes_per_token


def test_the_report_s_engines() -> None:
    spec = load_experiment(Path(T1)).spec
    engine = plan_engine(spec, plan_topology(spec))
    assert engine is not None
    assert engine.weights_gib == pytest.approx(122_111_526_912 * 2 / 8 / 2**30)
    assert engine.trials_per_engine == 560 / 8
    assert engine.full_contexts > 1


def test_weights_that_leave_no_cache(findings_of):
    (found,) = findings_of("T-engine", T1, "topology.gpus_per_engine=2")
    assert found.severity == "error" and "weights need 113.7 GiB per GPU" in found.message
    assert "--set topology.gpus_per_engine=4" in found.fix


def test_a_cache_shorter_than_one_trial(findings_of):
    tight = ("topology.gpus_per_engine=4", "engine.mem_fraction_static=0.6")
    found = findings_of("T-engine", T1, *tight, "hardware.usable_gib=95")
    assert [f.severity for f in found] == ["error"] and "can never reach its wall" in found[0].message


def test_terminus_works_in_harbors_environments_alone(findings_of) -> None:
    (found,) = findings_of("T-harness", T1)
    assert found.severity == "notice" and "summarises in its own way" in found.message
    assert findings_of("T-harness", T1, "rollout.summary.kind=none") == []
    (found,) = findings_of("T-harness", T1, "sandbox={kind: local}")
    assert found.severity == "error" and "sandbox.kind is local" in found.message
    assert findings_of("T-harness", T1, "rollout.harness=builtin") == []


def test_a_harness_of_ones_own_runs_and_what_names_none_is_an_error(findings_of) -> None:
    own = "rollout.harness=my_agents.loop:play"
    assert findings_of("T-harness", T1, own, "rollout.summary.kind=none") == []
    (warned,) = findings_of("T-harness", T1, own)
    assert warned.severity == "warning" and "nothing is summarised" in warned.message, "the preset summarises"
    (wrong,) = findings_of("T-harness", T1, "rollout.harness=terminus2")
    assert (wrong.severity, wrong.fix) == ("error", "did you mean `terminus-2`?")
    (wrong,) = findings_of("T-harness", T1, "rollout.harness=my_agents/loop.py")
    assert wrong.severity == "error" and "package.module:function" in wrong.fix
