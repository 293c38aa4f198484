"""slime's data source: the pool's tasks in the campaign's own order, which a resume finds again.

slime saves and loads a data source's state below `--save` and `--load`; ours is a position and what came back.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any, Final

from t1cli.plugin.checkpoints.keeper import keep
from t1cli.plugin.settings import settings_of
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
        self._position = 0
        self._returned: list[list[Any]] = []

    def get_samples(self, num_samples: int) -> list[list[Any]]:
        """`num_samples` groups: those that were given back first, then new ones."""
        groups, self._returned = self._returned[:num_samples], self._returned[num_samples:]
        first, self._position = self._position, self._position + num_samples - len(groups)
        return groups + [self._group(position) for position in range(first, self._position)]

    def add_samples(self, samples: list[list[Any]]) -> None:
        """Take aborted groups back; they come first again."""
        self._returned = [*samples, *self._returned]

    def save(self, rollout_id: int) -> None:
        """Record the position, and the groups that were given back, beside the checkpoint of this rollout."""
        returned = [group[0].group_index for group in self._returned if group]
        write_json(self._file(self._args.save, rollout_id), {"position": self._position, "returned": returned})
        if self._settings.spec.rollout.pipeline == "fully_async":
            # slime's own loop begins each rollout there, so that nothing of ours runs between two of them.
            keep(self._settings)

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
