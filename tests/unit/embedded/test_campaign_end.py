"""What a session starts is ended again, wherever its start or its end fails."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from t1cli.embedded import campaign
from t1cli.embedded.campaign_work import Records
from t1cli.errors import CouldNotAsk
from t1cli.run.directory import RunDirectory
from t1cli.run.events import EventWriter, read_events
from t1cli.run.metrics_writer import MetricsWriter
from t1cli.spec.load import load_experiment

SPEC = load_experiment(Path("quickstart")).spec


class Parts:
    """Plays Ray and the sandboxes; a step fails when its name is among `failing`."""

    def __init__(self, *failing: str) -> None:
        self.failing, self.done = failing, list[str]()
        self.ray_may_start = threading.Event()
        self.ray_may_start.set()
        self.ray_begins = threading.Event()

    def step(self, name: str) -> None:
        self.done.append(name)
        if name in self.failing:
            raise CouldNotAsk(f"{name} failed")

    def start(self, *_: object) -> Parts:
        self.ray_begins.set()
        assert self.ray_may_start.wait(120)
        self.step("ray starts")
        return self

    def close(self) -> None:
        self.step("ray ends")

    def open_site(self, *_: object) -> Site:
        self.step("site opens")
        return Site(self.step)


class Site:
    def __init__(self, step: Callable[[str], None]) -> None:
        self._step = step

    async def sweep(self) -> tuple[str, ...]:
        self._step("site sweeps")
        return ()

    async def close(self) -> None:
        self._step("site ends")


@pytest.fixture
def records(tmp_path: Path) -> Records:
    run = RunDirectory(tmp_path / "attempt_1")
    return Records(run, MetricsWriter(run.metrics_jsonl), EventWriter(run.events_jsonl), lambda line: None)


async def session(records: Records) -> None:
    async with campaign._processes_and_site(SPEC, records):
        pass


def played(monkeypatch: pytest.MonkeyPatch, *failing: str) -> Parts:
    parts = Parts(*failing)
    monkeypatch.setattr(campaign, "sweep_cluster", lambda record: 0)
    monkeypatch.setattr(campaign, "_start_cluster", parts.start)
    monkeypatch.setattr(campaign, "open_site", parts.open_site)
    return parts


@pytest.mark.parametrize(
    ("failing", "ended"),
    [
        ("ray starts", {"site ends"}),
        ("site opens", {"ray ends"}),
        ("site sweeps", {"site ends", "ray ends"}),
        ("site ends", {"site ends", "ray ends"}),
        ("ray ends", {"site ends", "ray ends"}),
    ],
)
def test_whatever_was_started_is_ended(
    records: Records, monkeypatch: pytest.MonkeyPatch, failing: str, ended: set[str]
) -> None:
    parts = played(monkeypatch, failing)
    with pytest.raises(CouldNotAsk, match=f"{failing} failed"):
        asyncio.run(session(records))
    assert {step for step in parts.done if step.endswith("ends")} == ended
    assert [event.text("phase") for event in read_events(records.run.events_jsonl)][-1] == "end"


def test_a_session_that_is_interrupted_while_ray_starts_ends_that_ray(
    records: Records, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = played(monkeypatch)
    parts.ray_may_start.clear()

    async def interrupted() -> None:
        running = asyncio.ensure_future(session(records))
        assert await asyncio.to_thread(parts.ray_begins.wait, 120)
        await asyncio.sleep(0)
        running.cancel()
        parts.ray_may_start.set()
        with pytest.raises(asyncio.CancelledError):
            await running

    asyncio.run(interrupted())
    assert {"ray starts", "ray ends", "site ends"} <= set(parts.done)
