"""Rollouts as slime v0.3.0's stock loop plays them: more groups than needed, a filter, an abort, groups given back.

What a custom generate function, a filter and a data source meet there; none of its code is slime's.
"""

from __future__ import annotations

import asyncio
import inspect
from typing import Any

import httpx

from slime.rollout.base_types import RolloutFnTrainOutput
from slime.rollout.filter_hub.base_types import DynamicFilterOutput, MetricGatherer
from slime.utils.async_utils import run
from slime.utils.misc import load_function
from slime.utils.types import Sample


class GenerateState:
    """One for the process, whoever asks for it."""

    _one: GenerateState | None = None

    def __new__(cls, args: Any) -> GenerateState:
        if cls._one is None:
            cls._one = super().__new__(cls)
            cls._one.args, cls._one.semaphore = args, asyncio.Semaphore(args.sglang_server_concurrency)
            cls._one.sampling_params = {"temperature": 1.0}
            cls._one.reset()
        return cls._one

    def reset(self) -> None:
        self.remaining_batch_size, self.aborted = 0, False
        self.pendings: set[asyncio.Task[Any]] = set()


async def generate_and_rm(args: Any, sample: Any, sampling_params: dict[str, Any], evaluation: bool) -> Any:
    if sample.status in (Sample.Status.COMPLETED, Sample.Status.TRUNCATED):
        return sample
    state = GenerateState(args)
    async with state.semaphore:
        if state.aborted:
            sample.status = Sample.Status.ABORTED
            return sample
        function = load_function(sample.generate_function_path or args.custom_generate_function_path)
        assert "evaluation" in inspect.signature(function).parameters
        made = await function(args, sample, sampling_params, evaluation=evaluation)
    entries = made if isinstance(made, list) else [made]
    if not any(entry.status is Sample.Status.ABORTED for entry in entries):
        assert all(entry.reward is not None for entry in entries), "there is no reward model here"
    return made


async def generate_and_rm_group(
    args: Any, group: list[Any], sampling_params: dict[str, Any], evaluation: bool = False
) -> list[Any]:
    if GenerateState(args).aborted:
        return group
    for sample in group:
        sample.session_id = sample.session_id or f"session-{sample.index}"
    return await asyncio.gather(*(generate_and_rm(args, one, dict(sampling_params), evaluation) for one in group))


async def abort(args: Any) -> list[Any]:
    """Stop the engines, and wait for everything that runs; under partial rollouts the groups go back."""
    state = GenerateState(args)
    assert not state.aborted
    state.aborted = True
    async with httpx.AsyncClient(trust_env=False) as client:
        engine = f"http://{args.sglang_router_ip}:{args.sglang_router_port}"
        await client.post(f"{engine}/abort_request", json={"abort_all": True}, timeout=60)
    back = []
    while state.pendings:
        done, state.pendings = await asyncio.wait(state.pendings, return_when=asyncio.FIRST_COMPLETED)
        for group in [task.result() for task in done] if args.partial_rollout else []:
            for entry in group:
                if entry.response and "start_rollout_id" not in entry.metadata:
                    raise AssertionError("nothing of ours is partial")
            back.append(group)
    return back


async def one_rollout(args: Any, data_source: Any) -> tuple[RolloutFnTrainOutput, list[Any]]:
    state, gathered = GenerateState(args), MetricGatherer()
    path = args.dynamic_sampling_filter_path
    keeps = load_function(path) if path else lambda *_: DynamicFilterOutput(keep=True)
    batch: list[Any] = []
    while len(batch) < args.rollout_batch_size:
        while state.remaining_batch_size < args.rollout_batch_size:
            drawn = data_source.get_samples(args.over_sampling_batch_size)
            for group in drawn:
                work = generate_and_rm_group(args, group, dict(state.sampling_params))
                state.pendings.add(asyncio.create_task(work))
            state.remaining_batch_size += len(drawn)
        done, state.pendings = await asyncio.wait(state.pendings, return_when=asyncio.FIRST_COMPLETED)
        for group in (task.result() for task in done):
            assert len(group) == args.n_samples_per_prompt
            verdict = keeps(args, group)
            if not verdict.keep:
                gathered.reasons[verdict.reason] += 1
                state.remaining_batch_size -= 1
            elif len(batch) < args.rollout_batch_size:
                batch.append(group)
    back = await abort(args)
    state.reset()
    first = lambda group: group[0][0] if isinstance(group[0], list) else group[0]  # noqa: E731
    batch.sort(key=lambda group: first(group).index)
    return RolloutFnTrainOutput(samples=batch, metrics=gathered.collect()), back


def generate_rollout(args: Any, rollout_id: int, data_source: Any, evaluation: bool = False) -> Any:
    assert args.rollout_global_dataset and not evaluation
    output, back = run(one_rollout(args, data_source))
    if back:
        data_source.add_samples(back)
    return output
