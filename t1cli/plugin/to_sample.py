"""TrainingRow to slime's Sample; the only file that knows Sample.

Rules of slime v0.3.0 (`slime/utils/types.py`, `slime/ray/rollout.py`): `tokens` are prompt and response together,
`loss_mask` and `rollout_log_probs` have one entry per response token, optional fields are taken from all samples or
from none, siblings of one trial share `group_id`, and a response is never empty.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from t1cli.terminal.rollout.outcome import StopReason
from t1cli.terminal.trajectory.row import TrainingRow

_SHORTEST_RESPONSE: Final = 1
LOST_FOR_GOOD: Final = "lost_for_good"
"""Key of a lost Sample's metadata: whether another try would be lost, too."""


def to_samples(rows: Sequence[TrainingRow], *, first_index: int, with_routing: bool) -> list[list[Any]]:
    """slime's nested form: prompt groups × trials × rows, a trial of one row a list too.

    slime flattens as long as the first entry is a list, so every entry has to be nested equally deep. `first_index`
    numbers samples and trials from there on: slime wants them unique within a rollout.
    """
    groups: dict[int, dict[str, list[TrainingRow]]] = {}
    for row in rows:
        groups.setdefault(row.group_id, {}).setdefault(row.trial_id, []).append(row)
    index, trial, nested = first_index, first_index, []
    for trials in groups.values():
        group: list[Any] = []
        for siblings in trials.values():
            samples = []
            for row in siblings:
                samples.append(to_sample(row, index=index, trial=trial, with_routing=with_routing))
                index += 1
            group.append(samples)
            trial += 1
        nested.append(group)
    return nested


def to_sample(row: TrainingRow, *, index: int, trial: int, with_routing: bool) -> Any:
    """One Sample; `trial` becomes its `group_id`, the unit of slime's loss and batching (`unit_field`)."""
    from slime.utils.types import Sample  # type: ignore[import-not-found]

    # A row without a single reply token still has to end in one (masked) response token: PPO indexes the last one.
    start = min(row.response_start, len(row.tokens) - _SHORTEST_RESPONSE)
    mask = row.loss_mask[start:].tolist()
    truncated = StopReason(row.stop).truncated
    return Sample(
        group_index=row.group_id,
        index=index,
        **{unit_field(Sample): trial},
        tokens=row.tokens.tolist(),
        response_length=len(row.tokens) - start,
        reward=row.reward,
        loss_mask=mask,
        rollout_log_probs=row.log_probs[start:].tolist(),
        rollout_routed_experts=_routing(row, with_routing),
        weight_versions=[str(version) for version in row.weight_versions],
        remove_sample=not any(mask),
        status=Sample.Status.TRUNCATED if truncated else Sample.Status.COMPLETED,
        metadata={
            "raw_reward": row.reward,
            "round_number": row.audit.turns,
            "trial_id": row.trial_id,
            "task": row.task,
            "family": row.family,
            "stop": row.stop,
        },
    )


def unit_field(sample: Any) -> str:
    """The field of Sample, or of one, that siblings share: `group_id`, which slime v0.3.1 calls `rollout_id`."""
    return "group_id" if hasattr(sample, "group_id") else "rollout_id"


def unit_of(sample: Any) -> int:
    """The trial that a Sample belongs to; its own number where nothing was said, as in slime."""
    unit = getattr(sample, unit_field(sample))
    return int(sample.index if unit is None else unit)


class Siblings(list[Any]):
    """One trial's samples for slime's own loops, which nest them into groups as they come.

    They ask an entry for what a Sample has (v0.3.0 and v0.3.1): its `index`, to sort groups
    (`rollout/fully_async_rollout.py`), where a plain list has a method of that name; its `response` under
    `--partial-rollout` (`rollout/sglang_rollout.py`), which a list lacks. Either ends the rollout.
    """

    index: int  # type: ignore[assignment]
    response = ""
    """None to go on with: a group that is given back is played anew."""

    def __init__(self, samples: Sequence[Any]) -> None:
        super().__init__(samples)
        self.index = samples[0].index


def first_sample(entry: Any) -> Any:
    """The first Sample of a group's entry, which is a Sample or a trial's list of them."""
    return entry[0] if isinstance(entry, list) else entry


def lost_sample(sample: Any) -> Any:
    """The Sample that slime's own loops get for a trial without rows: ABORTED, which nobody trains on.

    Should a loop hand it over all the same, there is no loss in it, and no reward of None, which would break PPO.
    """
    from slime.utils.types import Sample

    sample.tokens = sample.tokens or [0, 0]
    sample.response_length = _SHORTEST_RESPONSE
    sample.loss_mask = [0] * _SHORTEST_RESPONSE
    sample.rollout_log_probs = [0.0] * _SHORTEST_RESPONSE
    sample.reward, sample.remove_sample, sample.status = 0.0, True, Sample.Status.ABORTED
    return sample


def evaluation_data(rewards: Sequence[float], truncated: Sequence[bool]) -> dict[str, Any]:
    """What slime's evaluation log takes for one task set."""
    return {"rewards": list(rewards), "truncated": [bool(cut) for cut in truncated]}


def _routing(row: TrainingRow, wanted: bool) -> Any:
    """(T - 1, L, K) int32, slime's shape; TrainingRow keeps the smallest type that holds the experts."""
    if not wanted or row.routed_experts is None:
        return None
    return np.ascontiguousarray(row.routed_experts, dtype=np.int32)
