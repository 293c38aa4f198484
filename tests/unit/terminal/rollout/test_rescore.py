"""A run's stored verdicts under another reward: the same numbers where nothing changes, the new rule's elsewhere."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

from t1cli.spec.reward import Binary, CtrfCount, MultiplicativeLength
from t1cli.terminal.harness.agent import TurnNote
from t1cli.terminal.rewards.verdict import RewardResult, Verdict
from t1cli.terminal.rollout.outcome import Boundary, Outcome, StopReason
from t1cli.terminal.rollout.recorded_trials import read_trials
from t1cli.terminal.rollout.rescore import compare, rescore
from t1cli.terminal.rollout.result import TrialPlan, TrialResult
from t1cli.terminal.rollout.trial_log import append_trial, log_path


def trial(number: int, passed: int, *, scored: bool = True, ctrf: str = "ok", turns: int = 3) -> dict[str, object]:
    verdict = {"solved": passed == 4, "ctrf": ctrf, "passed": passed, "total": 4, "expected": 4, "seconds": 1.0}
    reward = {"value": passed / 20, "source": "ctrf", "accuracy": passed / 4, "binary": float(passed == 4)}
    return {
        "trial_id": f"t{number}",
        "task": "task",
        "family": "files" if number % 2 else "write",
        "scored": scored,
        "verdict": verdict if scored else None,
        "reward": reward if scored else None,
        "turns": [{}] * turns,
        "sampled_tokens": 100,
    }


def write(directory: Path) -> None:
    directory.mkdir()
    first = [trial(0, 4), trial(1, 2), trial(2, 0, scored=False)]
    second = [trial(3, 1, turns=65), trial(4, 4, ctrf="missing")]
    for number, trials in enumerate((first, second)):
        lines = "".join(json.dumps(one) + "\n" for one in trials)
        (directory / f"rollout_{number:06d}.jsonl").write_text(lines + '{"trial_id": "cut')


def test_stored_verdicts_are_scored_again(tmp_path: Path) -> None:
    write(tmp_path / "trials")
    same = compare(t for t in rescore(tmp_path / "trials", CtrfCount()) if t.trial_id != "t4")
    assert same is not None and (same.trials, same.changed, same.before_mean) == (3, 0, same.after_mean)
    binary = {t.trial_id: t.after.value for t in rescore(tmp_path / "trials", Binary())}
    assert binary == {"t0": 1.0, "t1": 0.0, "t3": 0.0, "t4": 1.0}
    shaped = {t.trial_id: t.after.value for t in rescore(tmp_path / "trials", CtrfCount(length=MultiplicativeLength()))}
    assert shaped["t3"] == 0.05 * 0.5 and shaped["t1"] == 0.1
    dense = compare(rescore(tmp_path / "trials", CtrfCount()))
    # The solve without a report falls back to 1.0, which outweighs everything that tests were counted for.
    assert dense is not None and dense.fallback_share > 0.7


def test_no_trials_is_no_comparison(tmp_path: Path) -> None:
    assert compare(rescore(tmp_path, Binary())) is None


def test_the_reader_gives_back_what_the_writer_wrote(doubles: SimpleNamespace, tmp_path: Path) -> None:
    plan = TrialPlan(doubles.task_named("task"), "t0", 3, 1, 0, 0)
    verdict = Verdict(solved=True, ctrf="ok", passed=4, total=4, expected=4, seconds=1.0, planted=True)
    note = TurnNote("ls", "command", "a\n", 0, 5, 7, 0.1, 0.1)
    done = TrialResult(
        plan,
        Outcome(True, StopReason.DONE),
        reward=RewardResult(0.2, "ctrf", 1.0, 1.0),
        verdict=verdict,
        sampled_tokens=9,
        lost_tokens=2,
        notes=(note,),
    )
    lost = TrialResult(
        replace(plan, trial_id="t1"), Outcome(False, StopReason.FAILED, Boundary.SANDBOX, "sandbox_agent")
    )
    for result in (done, lost):
        append_trial(log_path(tmp_path, 5), result)
    append_trial(tmp_path / "rollout_of_mine.jsonl", done)
    first, second = read_trials(tmp_path)
    assert (first.rollout, first.trial_id, first.task, first.outcome, first.verdict) == (
        5,
        "t0",
        "task",
        "scored",
        verdict,
    )
    assert (first.reward, first.sampled_tokens, first.lost_tokens, first.solved) == (0.2, 9, 2, True)
    assert [(t.reply, t.kind, t.observation, t.exit_code, t.sampled_tokens) for t in first.turns] == [
        ("ls", "command", "a\n", 0, 7)
    ]
    assert (second.trial_id, second.outcome, second.reward, second.verdict) == ("t1", "sandbox_agent", None, None)
    append_trial(log_path(tmp_path, 6), done)
    assert [trial.rollout for trial in read_trials(tmp_path, newest=1)] == [6]
