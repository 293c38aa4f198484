"""Groups in flight over rollouts, as slime's worker keeps them: a thread, a queue, aborted groups given back.

What raises is only said, as in slime: whoever waits for it waits on.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from typing import Any

from slime.rollout.sglang_rollout import GenerateState, generate_and_rm_group
from slime.utils.types import Sample


class AsyncRolloutWorker:
    def __init__(self, args: Any, data_buffer: Any, concurrency: int = 10) -> None:
        self.args, self.data_buffer, self.concurrency, self.running = args, data_buffer, concurrency, True
        self.output_queue: queue.Queue[tuple[int, list[Any]]] = queue.Queue(maxsize=1000)
        self.worker_thread: threading.Thread | None = None
        self.state = GenerateState(args)

    def start(self) -> None:
        self.worker_thread = threading.Thread(target=lambda: asyncio.run(self._work()), daemon=True)
        self.worker_thread.start()

    def stop(self) -> None:
        self.running = False
        if self.worker_thread is not None:
            self.worker_thread.join(timeout=5)

    def get_completed_groups(self) -> list[tuple[int, list[Any]]]:
        return [self.output_queue.get_nowait() for _ in range(self.output_queue.qsize())]

    async def _work(self) -> None:
        active: set[asyncio.Task[Any]] = set()
        number = 0
        while self.running:
            active = {task for task in active if not task.done()}
            while len(active) < self.concurrency and self.running:
                groups = self.data_buffer.get_samples(1)
                if not groups:
                    break
                for group in groups:
                    task = asyncio.create_task(generate_and_rm_group(self.args, group, {"temperature": 1.0}))
                    task.add_done_callback(lambda done, number=number: self._ended(number, done))
                    active.add(task)
                    number += 1
            await asyncio.sleep(0.2)
        if active:
            await asyncio.wait(active, timeout=30)

    def _ended(self, number: int, task: asyncio.Task[Any]) -> None:
        if task.cancelled() or task.exception() is not None:
            print(f"a group was lost: {task!r}", flush=True)
            return
        group = task.result()
        # An entry of several Samples is a list, which has no status.
        if any(getattr(entry, "status", None) is Sample.Status.ABORTED for entry in group):
            self.data_buffer.add_samples([group])
        else:
            self.output_queue.put((number, group))
