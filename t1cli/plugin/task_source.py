"""slime's data source: the pool's tasks in the campaign's own order, which a resume finds again.

slime saves and loads a data source's state below `--save` and `--load`; ours is one number.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any, Final

from t1cli.launch.json_files import read_json, write_json
from t1cli.plugin.settings import settings_of
from t1cli.terminal.rollout.draw import draw
from t1cli.terminal.tasks.load import load_pool

TASK_KEY: Final = "t1_task"
"""Key of a Sample's metadata that names its task."""
logger = logging.getLogger(__name__)


class TaskSource:
    """Groups of `n_samples_per_prompt` empty Samples that name their task. Made in the rollout manager, before the
    trainers: what must hold before anything is trained is checked here."""

    def __init__(self, args: Any) -> None:
        from t1cli.plugin.checkpoints.guard import assert_own_directories

        self._args, self._settings = args, settings_of(args)
        assert_own_directories(args, self._settings)
        spec = self._settings.spec
        self._tasks = load_pool(Path(spec.tasks.path), layout=spec.tasks.layout, families=spec.tasks.families)
        self._position = 0
        self._returned: list[list[Any]] = []

    def get_samples(self, num_samples: int) -> list[list[Any]]:
        """`num_samples` groups: those that were given back first, then new ones."""
        groups, self._returned = self._returned[:num_samples], self._returned[num_samples:]
        return groups + [self._group(self._position) for _ in range(num_samples - len(groups))]

    def add_samples(self, samples: list[list[Any]]) -> None:
        """Take aborted groups back; they come first again."""
        self._returned = [*samples, *self._returned]

    def save(self, rollout_id: int) -> None:
        """Record the position beside the checkpoint of this rollout."""
        write_json(self._file(self._args.save, rollout_id), {"position": self._position - len(self._returned)})

    def load(self, rollout_id: int | None = None) -> None:
        """Go on from the position of a checkpoint; without one the order starts over, and that is said."""
        if rollout_id is None or not self._args.load:
            return
        state = read_json(self._file(self._args.load, rollout_id))
        if state is None:
            logger.warning("no task position beside rollout %d: the task order starts over", rollout_id)
        else:
            self._position = int(state["position"])

    def __len__(self) -> int:
        return len(self._tasks)

    def _group(self, position: int) -> list[Any]:
        from slime.utils.types import Sample  # type: ignore[import-not-found]

        spec = self._settings.spec
        task = draw(self._tasks, rollout_id=position, count=1, seed=spec.seed, shuffle=spec.tasks.shuffle)[0]
        self._position = position + 1
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
