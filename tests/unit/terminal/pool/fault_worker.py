"""Trial workers as processes: what actors of Ray are to a campaign, without Ray. The worker itself is the real one."""

from __future__ import annotations

import asyncio
import itertools
import pickle
import struct
import sys
from asyncio.subprocess import Process
from pathlib import Path
from typing import Any

from fault_gate import Gate, held

_HEADER = struct.Struct("<I")


class WorkerProcesses:
    """Stands in for NodeActors: `call` runs a method in a worker's process, ConnectionError when that is gone."""

    def __init__(self, *arguments: str) -> None:
        self._arguments = arguments
        self._processes: dict[str, Process] = {}
        self._answers: dict[int, tuple[str, asyncio.Future[Any]]] = {}
        self._calls = itertools.count()
        self._readers: list[asyncio.Task[None]] = []
        self.lost: set[str] = set()

    @property
    def addresses(self) -> tuple[str, ...]:
        """Workers that live, as far as is known; all of them when none is left."""
        return tuple(name for name in self._processes if name not in self.lost) or tuple(self._processes)

    async def start(self, *names: str) -> None:
        """One process for each name that has none, or a dead one."""
        for name in names:
            if name in self._processes and name not in self.lost:
                continue
            argv = (sys.executable, str(Path(__file__)), *self._arguments)
            pipe = asyncio.subprocess.PIPE
            self._processes[name] = await asyncio.create_subprocess_exec(*argv, stdin=pipe, stdout=pipe)
            self.lost.discard(name)
            self._readers.append(asyncio.create_task(self._read(name)))

    async def call(self, name: str, method: str, *arguments: Any) -> Any:
        """Run a method there. Raises ConnectionError when the process is gone."""
        if name in self.lost:
            raise ConnectionError(f"the worker {name} is gone")
        number, answer = next(self._calls), asyncio.get_running_loop().create_future()
        self._answers[number] = name, answer
        stream = self._processes[name].stdin
        assert stream is not None
        _send(stream, (number, method, arguments))
        return await answer

    async def close(self) -> None:
        """End them; closing their input is the signal."""
        for process in self._processes.values():
            if process.stdin is not None:
                process.stdin.close()
            await process.wait()

    async def _read(self, name: str) -> None:
        stream = self._processes[name].stdout
        assert stream is not None
        while (found := await _receive(stream)) is not None:
            number, value, failure = found
            _, answer = self._answers.pop(number)
            if not answer.done():
                answer.set_exception(failure) if failure is not None else answer.set_result(value)
        self.lost.add(name)
        for number in [number for number, (worker, _) in self._answers.items() if worker == name]:
            _, answer = self._answers.pop(number)
            if not answer.done():
                answer.set_exception(ConnectionError(f"the worker {name} is gone"))


async def serve(settings: Path, url: str, gate: Gate) -> None:
    """Answer calls from standard input until it ends."""
    from t1cli.plugin.campaign import Campaign
    from t1cli.plugin.trial_worker import TrialWorker

    worker = TrialWorker(settings.read_text(), url, 4)
    campaign = worker._campaign
    worker._campaign = Campaign(
        campaign.settings, campaign.tasks, campaign.evaluation_tasks, held(campaign.world, gate)
    )
    loop, reader = asyncio.get_running_loop(), asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    transport, protocol = await loop.connect_write_pipe(asyncio.streams.FlowControlMixin, sys.stdout)
    writer = asyncio.StreamWriter(transport, protocol, None, loop)
    running: set[asyncio.Task[None]] = set()
    while (found := await _receive(reader)) is not None:
        task = asyncio.create_task(_answer(worker, writer, found))
        running.add(task)
        task.add_done_callback(running.discard)
    for task in running:
        task.cancel()
    await asyncio.gather(*running, return_exceptions=True)
    await campaign.world.provider.close()


async def _answer(worker: Any, writer: asyncio.StreamWriter, call: tuple[int, str, tuple[Any, ...]]) -> None:
    number, method, arguments = call
    value, failure = None, None
    try:
        value = await getattr(worker, method)(*arguments)
    except Exception as error:
        failure = error
    _send(writer, (number, value, failure))


def _send(writer: asyncio.StreamWriter, content: Any) -> None:
    payload = pickle.dumps(content)
    writer.write(_HEADER.pack(len(payload)) + payload)


async def _receive(reader: asyncio.StreamReader) -> Any:
    try:
        (length,) = _HEADER.unpack(await reader.readexactly(_HEADER.size))
        return pickle.loads(await reader.readexactly(length))
    except asyncio.IncompleteReadError:
        return None


if __name__ == "__main__":
    asyncio.run(serve(Path(sys.argv[1]), sys.argv[2], Gate(Path(sys.argv[3]), sys.argv[4], sys.argv[5] == "fails")))
