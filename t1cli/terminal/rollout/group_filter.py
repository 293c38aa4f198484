"""Whole groups that are dropped before anybody trains on them: `rollout.dynamic_filter`, under slime's own contract.

slime calls `function(args, group, **more)` with the group's samples, where a trial of several rows is a list of them,
and reads a bool, or an object with `keep` and `reason`. The same function works on both engines.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, Final

from t1cli.errors import Refused, T1Error
from t1cli.terminal.own_code import own_attribute, own_module
from t1cli.terminal.rollout.result import TrialResult

KEY: Final = "rollout.dynamic_filter"
UNNAMED: Final = "dynamic_filter"
"""Reason of a drop that says none."""

GroupFilter = Callable[[Sequence[TrialResult]], str | None]
"""The scored trials of one group, by sample, to why it is dropped; None keeps it."""


class Drops:
    """What one rollout's filter dropped."""

    def __init__(self, group_filter: GroupFilter | None) -> None:
        self._filter = group_filter
        self._reasons: dict[int, str] = {}
        self._undone = 0

    @property
    def group_ids(self) -> Collection[int]:
        """Groups that stay dropped."""
        return self._reasons.keys()

    def takes(self, group_id: int, trials: Sequence[TrialResult]) -> bool:
        """Whether a group that is full now is dropped."""
        reason = self._filter(trials) if self._filter else None
        if reason is not None:
            self._reasons[group_id] = reason
        return reason is not None

    def undo(self, lacking: int) -> list[int]:
        """Groups that are not dropped after all, the earliest first: a batch that lacks groups trains on them."""
        back = list(self._reasons)[:lacking]
        for group_id in back:
            del self._reasons[group_id]
        self._undone += len(back)
        return back

    def metrics(self) -> dict[str, float]:
        """slime's names for what was dropped and why, and how many drops the batch could not do without."""
        if not self._reasons and not self._undone:
            return {}
        counts = Counter(self._reasons.values())
        return {
            **{f"rollout/dynamic_filter/drop_{reason}": float(count) for reason, count in sorted(counts.items())},
            "terminal/filter_undone": float(self._undone),
        }


@dataclass(frozen=True)
class FilterSample:
    """What a filter sees of one trial where slime's Sample does not exist."""

    reward: float
    response_length: int
    """Tokens that the policy sampled."""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    """`trial_id`, `task`, `family`, `stop`, as the plugin's samples have them."""

    def get_reward_value(self, args: Any) -> float:
        """As slime's Sample says it."""
        return self.reward


def rewards_differ(args: Any, samples: Sequence[Any], **more: Any) -> SimpleNamespace:
    """A filter to use: keeps groups whose trials did not all earn the same, for the others teach a group baseline
    nothing."""
    firsts = [sample[0] if isinstance(sample, list) else sample for sample in samples]
    rewards = {float(first.reward) for first in firsts}
    keep = len(rewards) > 1
    return SimpleNamespace(keep=keep, reason=None if keep else f"equal_{round(min(rewards), 1)}")


def group_filter(path: str, *, args: Any = None, samples_of: Callable[[Sequence[TrialResult]], Any]) -> GroupFilter:
    """The function behind a dotted path, for whole groups. Raises Refused when it cannot be imported."""
    function = _function(path)

    def why_dropped(trials: Sequence[TrialResult]) -> str | None:
        try:
            verdict = function(args, samples_of(trials))
        except Exception as error:
            # Somebody else's code: without its word nobody knows what to train on.
            raise T1Error(f"{path} raised {type(error).__name__}: {error}", where=KEY) from error
        if bool(getattr(verdict, "keep", verdict)):
            return None
        return str(getattr(verdict, "reason", None) or UNNAMED)

    return why_dropped


def neutral_samples(trials: Sequence[TrialResult]) -> list[FilterSample]:
    """A group for a filter, without slime."""
    return [
        FilterSample(
            reward=trial.reward.value if trial.reward else 0.0,
            response_length=trial.sampled_tokens,
            metadata={
                "trial_id": trial.plan.trial_id,
                "task": trial.plan.task.name,
                "family": trial.family,
                "stop": trial.outcome.stop.value,
            },
        )
        for trial in trials
    ]


def _function(path: str) -> Callable[..., Any]:
    module_name, _, name = path.replace(":", ".").rpartition(".")
    try:
        found = own_attribute(own_module(module_name, key=KEY), name, key=KEY)
    except Refused as refused:
        first = refused.diagnostics[0]
        raise Refused(f"{path} cannot be imported: {first.message}", where=KEY, hint=first.hint) from refused
    if not callable(found):
        raise Refused(f"{path} is no function", where=KEY, hint=f"for example {__name__}.{rewards_differ.__name__}")
    return found  # type: ignore[no-any-return]
