"""The next rollout waits while the run is paused, and goes on for each of the three reasons."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from t1cli.records import write_json
from t1cli.run.directory import RunDirectory
from t1cli.run.pause import LOOK_SECONDS, hold_while_paused


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    made = RunDirectory(tmp_path / "r" / "attempt_1")
    made.path.mkdir(parents=True)
    return made


def test_without_a_request_nothing_waits_and_nothing_is_noted(run: RunDirectory) -> None:
    notes: list[str] = []
    asyncio.run(hold_while_paused(run, notes.append))
    assert notes == []


@pytest.mark.parametrize("reason", ["acknowledged", "stop", "over"])
def test_a_paused_run_waits_until_there_is_a_reason_to_go_on(run: RunDirectory, reason: str) -> None:
    notes: list[str] = []
    over: list[bool] = []
    write_json(run.pause_request, {})

    async def whole() -> None:
        held = asyncio.create_task(hold_while_paused(run, notes.append, is_over=lambda: bool(over)))
        _, still = await asyncio.wait({held}, timeout=3 * LOOK_SECONDS)
        assert still == {held} and len(notes) == 1, "it waits, and has said so once"
        if reason == "acknowledged":
            run.pause_request.unlink()
        elif reason == "stop":
            write_json(run.stop_request, {})
        else:
            over.append(True)
        await held

    asyncio.run(whole())
    assert notes == ["paused: pause_request.json exists", "goes on after a pause"]
