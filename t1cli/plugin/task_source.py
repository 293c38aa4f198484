"""slime's data source: the pool's tasks in the campaign's own order, which a resume finds again.

slime saves and loads a data source's state below `--save` and `--load`; ours is a position and what came back.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from t1cli.plugin.settings import settings_of, settings_text
from t1cli.plugin.to_sample import LOST_FOR_GOOD, first_sample
from t1cli.records import read_json, write_json
from t1cli.terminal.rollout.draw import tasks_at

TASK_KEY: Final = "t1_task"
"""Key of a Sample's metadata that names its task."""
logger = logging.getLogger(__name__)


class TaskSource:
    """Groups of `n_samples_per_prompt` empty Samples that name their task. Made in the rollout manager, before the
    trainers: what must hold before anything is trained is checked here."""

    def __init__(self, args: Any) -> None:
        from t1cli.plugin.campaign import load_tasks
        from t1cli.plugin.checkpoints.guard import assert_own_directories

        self._args, self._settings = args, settings_of(args)
        assert_own_directories(args, self._settings)
        spec = self._settings.spec
        self._tasks = load_tasks(spec)
        self._lock = threading.Lock()
        self._position = 0
        self._returned: list[list[Any]] = []
        self._out: dict[int, int | None] = {}
        """Positions that are drawn, to the rollout that was done with them; null while none is."""
        self._settles = False
        """Whether rollouts say what they are done with; loops of other people's do not."""

    def get_samples(self, num_samples: int) -> list[list[Any]]:
        """`num_samples` groups: those that were given back first, then new ones."""
        with self._lock:
            groups, self._returned = self._returned[:num_samples], self._returned[num_samples:]
            first, self._position = self._position, self._position + num_samples - len(groups)
            groups = groups + [self._group(position) for position in range(first, self._position)]
            self._out |= dict.fromkeys(group[0].group_index for group in groups)
        return groups

    def add_samples(self, samples: list[list[Any]]) -> None:
        """Take groups back that nobody trains on; they come first again, and are played anew.

        One that every try would lose is not drawn again.
        """
        from t1cli.plugin.trial_book import trial_book

        positions = [int(first_sample(group[0]).group_index) for group in samples]
        again = [p for p, group in zip(positions, samples, strict=True) if not any(map(_lost_for_good, group))]
        with self._lock:
            for position in positions:
                trial_book(settings_text(self._args)).drop(position, "over_sampling")
                self._out.pop(position, None)
            self._returned = [*(self._group(position) for position in again), *self._returned]

    @property
    def under_way(self) -> int:
        """Groups that are drawn and that no rollout is done with."""
        with self._lock:
            return sum(done is None for done in self._out.values())

    def settle(self, rollout_id: int, positions: Iterable[int] | None = None) -> None:
        """A rollout is done with these groups, whatever became of them; null: with all that are drawn."""
        with self._lock:
            self._settles = True
            for position in list(self._out) if positions is None else positions:
                if self._out.get(position, rollout_id) is None:
                    self._out[position] = rollout_id

    def save(self, rollout_id: int) -> None:
        """Record the position beside the checkpoint of this rollout, and which groups come first after a resume: those
        that were given back, and those that nothing up to this rollout is done with."""
        with self._lock:
            self._out = {p: done for p, done in self._out.items() if done is None or done > rollout_id}
            returned = [group[0].group_index for group in self._returned if group]
            unsettled = sorted(self._out) if self._settles else []
            state = {"position": self._position, "returned": unsettled + returned}
        write_json(self._file(self._args.save, rollout_id), state)

    def load(self, rollout_id: int | None = None) -> None:
        """Go on from the position of a checkpoint; without one the order starts over, and that is said."""
        # A fresh start asks for the rollout before the first one, and slime's `load` is the reference model then.
        if rollout_id is None or rollout_id < 0 or not self._args.load:
            return
        state = read_json(self._file(self._args.load, rollout_id))
        if state is None:
            logger.warning("no task position beside rollout %d: the task order starts over", rollout_id)
        else:
            self._returned = [self._group(int(position)) for position in state.get("returned", ())]
            self._position = int(state["position"])

    def __len__(self) -> int:
        return len(self._tasks)

    def _group(self, position: int) -> list[Any]:
        from slime.utils.types import Sample  # type: ignore[import-not-found]

        spec = self._settings.spec
        (task,) = tasks_at(self._tasks, (position,), seed=spec.seed, shuffle=spec.tasks.shuffle)
        count = self._args.n_samples_per_prompt
        return [
            Sample(
                group_index=position,
                index=position * count + sample,
                prompt=task.instruction,
                metadata={TASK_KEY: task.name},
            )
            for sample in range(count)
        ]

    @staticmethod
    def _file(directory: str, rollout_id: int) -> Path:
        return Path(directory) / "rollout" / f"t1_task_position_{rollout_id}.json"


def _lost_for_good(entry: Any) -> bool:
    return bool((first_sample(entry).metadata or {}).get(LOST_FOR_GOOD))
