"""Which weights sampled a batch: how many versions it lags behind the trainer, and rows that mix versions.

Under `sync` the lag is always 0. Under `one_step` it is 0 for the first rollout of a session, a resumed one included,
and exactly 1 afterwards. Under `fully_async` it is bounded by `max_staleness`, and so are the versions within one row.
Where unfinished trials go on in the next rollout, the oldest turn may lag further, up to `max_staleness`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from t1cli.errors import T1Error
from t1cli.spec.rollout import RolloutSpec
from t1cli.terminal.trajectory.row import TrainingRow

UNPUSHED: Final = 0
"""Up to this version no trainer has pushed weights to the engine yet (SGLang's `default` is -1): no lag is known."""


@dataclass(frozen=True)
class LagRule:
    """What a pipeline promises."""

    pipeline: str
    max_staleness: int
    continues: bool = False
    """Unfinished trials of a rollout go on in the next one."""

    @property
    def allowed_span(self) -> int:
        """Versions that the turns of one row, and the rows of one batch, may lie apart."""
        if self.pipeline == "fully_async":
            return self.max_staleness
        # A batch that is generated one step ahead has spent one of its versions on that.
        ahead = 1 if self.pipeline == "one_step" else 0
        return max(0, self.max_staleness - ahead) if self.continues else 0

    def expected(self, rollouts_before: int) -> range:
        """Lags that are right after so many rollouts of the session."""
        if self.pipeline == "fully_async":
            return range(self.max_staleness + 1)
        lag = 1 if self.pipeline == "one_step" and rollouts_before > 0 else 0
        return range(lag, lag + self.allowed_span + 1)


def lag_rule(rollout: RolloutSpec) -> LagRule:
    """What a spec's rollout block promises."""
    return LagRule(rollout.pipeline, rollout.max_staleness, rollout.unfinished == "continue")


def require_spans(rows: Sequence[TrainingRow], rule: LagRule) -> None:
    """Raises T1Error for rows, or a batch, sampled by weights further apart than the rule allows."""
    for row in rows:
        _require_span(row.weight_versions, rule, f"row of trial {row.trial_id}")
    _require_span([version for row in rows for version in row.weight_versions], rule, "batch")


def _require_span(versions: Sequence[int], rule: LagRule, what: str) -> None:
    span = max(versions) - min(versions) if versions else 0
    if span > rule.allowed_span:
        raise T1Error(
            f"{what}: its turns were sampled by weight versions {min(versions)} to {max(versions)}, "
            f"{rule.pipeline} allows {rule.allowed_span} apart",
            where="rollout.max_staleness",
            hint="no weights may be pushed while a batch is generated; with max_staleness, `pipeline: fully_async` and "
            "`unfinished: continue` allow it",
        )


class VersionClock:
    """Follows one session: the trainer's version is that of its first rollout plus the rollouts trained since."""

    def __init__(self, rule: LagRule) -> None:
        self._rule = rule
        self._first: tuple[int, int] | None = None

    def is_late(self, rollout_id: int, rows: Sequence[TrainingRow]) -> bool:
        """Whether rows that this rollout trains would lag further than the pipeline allows; asked before `lag`."""
        versions = [version for row in rows for version in row.weight_versions]
        if not versions or min(versions) <= UNPUSHED:
            return False
        rollout, version = self._first or (rollout_id, max(versions))
        lag = version + rollout_id - rollout - min(versions)
        return max(lag, max(versions) - min(versions)) > self._rule.expected(rollout_id - rollout).stop - 1

    def lag(self, rollout_id: int, rows: Sequence[TrainingRow]) -> int | None:
        """Versions that the oldest turn lies behind the trainer when the batch is trained; None before any push.

        Raises T1Error when it is not what the pipeline promises, and for rows that mix versions.
        """
        require_spans(rows, self._rule)
        oldest = min((version for row in rows for version in row.weight_versions), default=UNPUSHED)
        if oldest <= UNPUSHED:
            return None
        self._first = self._first or (rollout_id, oldest)
        rollouts_before = rollout_id - self._first[0]
        lag = self._first[1] + rollouts_before - oldest
        expected = self._rule.expected(rollouts_before)
        if lag not in expected:
            raise T1Error(
                f"rollout {rollout_id + 1} was sampled {lag} weight versions before the trainer's, expected "
                f"{expected.start if len(expected) == 1 else f'0 to {expected.stop - 1}'} under {self._rule.pipeline}: "
                "the importance ratio would compare the wrong policies",
                where="rollout.pipeline",
                hint="look at the weight pushes in the job's log; engines may hold weights of another step",
            )
        return lag
