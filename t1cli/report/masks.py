"""Which tokens of a trial carried loss, as runs over its training row."""

from __future__ import annotations

from dataclasses import dataclass

from t1cli.run.directory import RunDirectory
from t1cli.terminal.rollout.recorded_trials import RecordedTrial


@dataclass(frozen=True)
class MaskRun:
    """Tokens in a row with the same mask."""

    tokens: int
    in_loss: bool


def mask_of(run: RunDirectory, trial: RecordedTrial) -> tuple[MaskRun, ...]:
    """The runs of a trial's row, prompt included; empty when no row of it was kept."""
    path = run.rollouts / f"rollout_{trial.rollout:06d}.npz"
    if not path.is_file():
        return ()
    from t1cli.terminal.trajectory.store import load_rows

    try:
        rows = [row for row in load_rows(path) if row.trial_id == trial.trial_id]
    except (OSError, ValueError, KeyError):
        return ()
    runs: list[MaskRun] = []
    for row in rows:
        for value in row.loss_mask.tolist():
            if runs and runs[-1].in_loss == bool(value):
                runs[-1] = MaskRun(runs[-1].tokens + 1, bool(value))
            else:
                runs.append(MaskRun(1, bool(value)))
    return tuple(runs)
