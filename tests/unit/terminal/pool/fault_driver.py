"""A campaign's rollouts in a process of its own, on real sandboxes, by the product's own code except for the model.

It resumes by itself: rollouts that are on disk are passed over, finished trials of the next one are taken over. The
last line says what it did.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import threading
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from fault_gate import Gate, held, hold_saves
from fault_worker import WorkerProcesses

from t1cli.embedded.campaign_work import CampaignWork, Pools, Records
from t1cli.embedded.campaign_world import campaign_world, load_pools, open_site
from t1cli.embedded.template import TinyChatTemplate
from t1cli.plugin.trial_worker import RemoteTrial
from t1cli.run.directory import RunDirectory
from t1cli.run.events import EventWriter
from t1cli.run.metrics_writer import MetricsWriter
from t1cli.spec.experiment import ExperimentSpec
from t1cli.spec.load import load_experiment
from t1cli.terminal.harness.engine import Engine, Generation, Sampling
from t1cli.terminal.rollout.plan import RolloutAborted
from t1cli.terminal.tasks.task import Task

SPEC = Path(__file__).parents[4] / "experiments/quickstart/experiment.yaml"
ROLLOUTS = 2
SIZE = 3
WORKERS = ("one", "two")


class Oracle:
    """Plays every task's own solution, a command a turn."""

    def __init__(self, tasks: tuple[Task, ...]) -> None:
        template = TinyChatTemplate()
        self._render = template.render_reply
        self._lines = {template.render_task(task.instruction): _commands(task) for task in tasks}
        self.played: set[str] = set()

    def reply(self, prompt_ids: tuple[int, ...], rid: str) -> tuple[int, ...]:
        lines = next(lines for start, lines in self._lines.items() if prompt_ids[: len(start)] == start)
        trial, _, turn = rid.rpartition("-t")
        self.played.add(trial)
        return self._render(lines[int(turn)] if int(turn) < len(lines) else "")

    async def generate(self, prompt_ids: tuple[int, ...], *, rid: str, sampling: Sampling) -> Generation:
        ids = self.reply(prompt_ids, rid)
        return Generation(ids, (-0.1,) * len(ids), None, "stop", 1)

    def take_lost(self, rid: str) -> int:
        return 0


def _commands(task: Task) -> list[str]:
    return [line for line in (task.solution / "solve.sh").read_text().splitlines() if line and line[0] != "#"][1:]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("place", type=Path)
    parser.add_argument("--backend", default="bubblewrap")
    parser.add_argument("--url", default="")
    parser.add_argument("--workers", action="store_true")
    parser.add_argument("--moment", default="")
    parser.add_argument("--fails", action="store_true")
    parser.add_argument("--wall", type=float, default=300.0)
    given = parser.parse_args()
    asyncio.run(play(given, spec_of(given)))


def spec_of(given: argparse.Namespace) -> ExperimentSpec:
    overrides = [
        f"tasks.path={SPEC.parent / 'tasks'}",
        f"rollout.batch_size={SIZE}",
        f"rollout.num_rollouts={ROLLOUTS}",
        f"rollout.trial_wall_seconds={given.wall}",
        f"rollout.command_timeout_seconds={given.wall}",
        f"tasks.timeout_override_seconds={given.wall}",
        "rollout.over_sampling_batch_size=null",
        "rollout.context_tokens=4000",
        "rollout.max_new_tokens_per_turn=400",
        "rollout.routing_replay=false",
    ]
    if given.url:
        pool = {"kind": "pool", "urls": [given.url], "max_tasks": 16, "max_runs_per_task": 8, "wait_seconds": 120}
        overrides += [f"sandbox={json.dumps(pool)}"]
    else:
        overrides += [f"sandbox.backend={given.backend}"]
    return load_experiment(SPEC, overrides).spec


async def play(given: argparse.Namespace, spec: ExperimentSpec) -> None:
    run = RunDirectory(given.place / "runs/fault/attempt_1")
    gate = Gate(given.place, given.moment, given.fails)
    site, tasks = open_site(spec, run), load_pools(spec)[0]
    oracle, counts = Oracle(tasks), Counter[str]()

    @asynccontextmanager
    async def connect() -> AsyncIterator[Engine]:
        yield oracle

    world = replace(campaign_world(spec, run, site, url=""), connect=connect, close_seconds=10.0, create_seconds=30.0)
    if not gate.fails:
        hold_saves(gate)
    swept = await site.sweep()
    records = Records(run, MetricsWriter(run.metrics_jsonl), EventWriter(run.events_jsonl), lambda _: None)
    never = SimpleNamespace(server_end=asyncio.Event().wait)
    work: Any = CampaignWork(spec, never, held(world, gate), Pools(tasks, ()), records)  # type: ignore[arg-type]
    workers = await _workers(given, spec, run, oracle) if given.workers else None
    if workers is not None:
        work._series.run = partial(work._series.run, make_trial=partial(RemoteTrial, workers))
    work.resumed_version = 1
    aborted = ""
    for rollout_id in range(ROLLOUTS):
        if (run.rollouts / f"rollout_{rollout_id:06d}.npz").exists():
            continue
        if workers is not None:
            await workers.start(*WORKERS)
        try:
            result = await work.generate(rollout_id)
        except RolloutAborted as problem:
            aborted = str(problem)
            break
        counts.update(f"{t.outcome.boundary}/{t.outcome.cause}" for t in result.trials if not t.outcome.scored)
        if result.short:
            aborted = "short"
            (run.rollouts / f"rollout_{rollout_id:06d}.npz").unlink()
            break
    await work.close()
    if workers is not None:
        await workers.close()
    await site.close()
    print(json.dumps({"lost": counts, "played": len(oracle.played), "swept": swept, "aborted": aborted}), flush=True)


async def _workers(
    given: argparse.Namespace, spec: ExperimentSpec, run: RunDirectory, oracle: Oracle
) -> WorkerProcesses:
    settings = given.place / "settings.json"
    content = {"spec": spec.model_dump(mode="json"), "run_dir": str(run.path), "family": "f", "session": 1}
    settings.write_text(json.dumps({**content, "actor_dir": "actor", "critic_dir": None}))
    fails = "fails" if given.fails else "waits"
    return WorkerProcesses(str(settings), _engine(oracle), str(given.place), given.moment, fails)


def _engine(oracle: Oracle) -> str:
    """The oracle behind SGLang's native route, for workers; returns its address."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            answer: dict[str, Any] = {}
            if self.path == "/generate":
                ids = oracle.reply(tuple(body["input_ids"]), body["rid"])
                meta = {"finish_reason": {"type": "stop"}, "weight_version": "1"}
                meta["output_token_logprobs"] = [[-0.1, token, None] for token in ids]  # type: ignore[assignment]
                answer = {"output_ids": list(ids), "meta_info": meta}
            content = json.dumps(answer).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: Any) -> None:
            """Quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.server_address[1]}"


if __name__ == "__main__":
    main()
