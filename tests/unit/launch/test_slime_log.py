"""slime's printed dictionaries as metric rows."""

from __future__ import annotations

import math

import pytest

from t1cli.launch.slime.log import LineJoiner, LoggedMetrics, LoggedSave, read_line

PREFIX = "(RolloutManager pid=41, ip=10.0.0.2) [2026-08-06 10:11:12] rollout.py:1227 - "


@pytest.mark.parametrize(
    ("line", "axis", "step", "values"),
    [
        (PREFIX + "perf 7: {'perf/rollout_time': 12.5, 'terminal/groups': 4}", "rollout/step", 7, [12.5, 4.0]),
        ("rollout 0: {'rollout/raw_reward': np.float64(0.25)}", "rollout/step", 0, [0.25]),
        ("[x] model.py:818 - step 14: {'train/loss': -1e-05, 'train/step': 14}", "train/step", 14, [-1e-05]),
        ("[x] model.py:818 - critic-step 3: {'train/critic-value_loss': 2.0}", "train/step", 3, [2.0]),
        ("eval 20: {'eval/tb': 0.5, 'eval/tb-truncated_ratio': 0.1}", "eval/step", 20, [0.5, 0.1]),
        ("x step 2: {'train/grad_norm': tensor(1.25, device='cuda:0')}", "train/step", 2, [1.25]),
    ],
)
def test_a_metric_line(line: str, axis: str, step: int, values: list[float]) -> None:
    found = read_line(line)
    assert isinstance(found, LoggedMetrics)
    assert (found.axis, found.step, list(found.values.values())) == (axis, step, values)


def test_nan_and_inf_are_numbers() -> None:
    found = read_line("step 1: {'train/loss': nan, 'train/a': inf, 'train/b': -inf, 'train/c': True}")
    assert isinstance(found, LoggedMetrics)
    loss, *others = found.values.values()
    assert math.isnan(loss) and others == [math.inf, -math.inf, 1.0]


def test_a_save_line() -> None:
    line = "(Actor pid=1)   successfully saved checkpoint from iteration      20 to /ckpt/actor [ t 1/2, p 1/2 ]"
    assert read_line(line) == LoggedSave(20, "/ckpt/actor")


@pytest.mark.parametrize("line", ["", "step 3: done", "footstep 3: {'a': 1}", "perf 3: {}", "{'a': 1}", "rollout: {1}"])
def test_other_lines_say_nothing(line: str) -> None:
    assert read_line(line) is None


def test_pieces_of_a_long_line_are_joined_by_their_process() -> None:
    joiner, colour = LineJoiner(), "\x1b[36m(RolloutManager pid=4)\x1b[0m "
    other = "(Trainer pid=5) step 3: {'train/loss': 1.0}"
    lines = [
        colour + "x perf 3: {'a': 1.0, 'terminal/total_s",
        other,
        colour + "amples': 2.0, 'b'",
        colour + ": 3.0}",
        colour + "other",
    ]
    whole = [joiner.whole(line) for line in lines]
    assert whole[0] is None and whole[2] is None and whole[4] == "other"
    found = read_line(whole[3] or "")
    assert isinstance(found, LoggedMetrics) and found.values == {"a": 1.0, "terminal/total_samples": 2.0, "b": 3.0}
    assert read_line(whole[1] or "") == LoggedMetrics("train/step", 3, {"train/loss": 1.0})
