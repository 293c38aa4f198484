"""Rollouts of slime's own loops through the hooks, in real sandboxes: rows, ledger and order as under t1's own loop.

By the double of slime; with SLIME_CHECKOUT=PATH and `-m slow` the same by the loops of that checkout.
"""

from __future__ import annotations

import asyncio
import gc
import importlib.util
import itertools
import json
import os
import sys
from argparse import Namespace
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import httpx
import pytest

from t1cli.plugin import hooks
from t1cli.plugin.settings import settings_text
from t1cli.plugin.to_sample import LOST_FOR_GOOD, Siblings, lost_sample
from t1cli.plugin.trial_book import trial_book
from t1cli.terminal.harness.engine import Generation, Sampling
from t1cli.terminal.harness.engine_client import EngineClient
from t1cli.terminal.rollout.outcome import Boundary, Outcome, StopReason
from t1cli.terminal.rollout.plan import RolloutAborted
from t1cli.terminal.rollout.result import TrialResult
from t1cli.terminal.trajectory.audit_run import audit_run
from t1cli.terminal.trajectory.routing import MissingRouting
from t1cli.terminal.trajectory.row import TrainingRow
from t1cli.terminal.trajectory.store import load_rows
from tests.contract.slime_session import engine_of, session_settings, small_spec

DOUBLE = Path(__file__).parent / "slime_double"
ROOT = Path(__file__).parents[2]
CHECKOUT = os.environ.get("SLIME_CHECKOUT", "")
pytestmark = pytest.mark.timeout(600)
Make = Callable[..., Namespace]


@pytest.fixture(scope="module")
def make(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Make]:
    """slime's namespace of a session of its own, with one engine behind all of them."""
    root, number, spec = tmp_path_factory.mktemp("loops"), itertools.count(), small_spec()
    with engine_of(spec, root) as engine:

        def namespace(name: str, rollout: Mapping[str, Any], **values: Any) -> Namespace:
            ours = session_settings(spec, root / "runs" / f"{name}-{next(number)}" / "attempt_1")
            ours["spec"]["rollout"].update(rollout)
            given = {
                "t1": ours,
                **engine,
                "sglang_server_concurrency": 512,
                "custom_generate_function_path": "t1cli.plugin.hooks.generate",
                "dynamic_sampling_filter_path": "t1cli.plugin.hooks.filter_group",
                "n_samples_per_prompt": 1,
                "rollout_batch_size": 2,
                "over_sampling_batch_size": 2,
                "partial_rollout": False,
                "rollout_global_dataset": True,
                "num_rollout": 3,
                **STOCK,
                "save": None,
                "load": None,
            }
            return Namespace(**given | values)

        yield namespace


@pytest.fixture(autouse=True)
def no_abandoned_task_is_left() -> Iterator[None]:
    """slime drops tasks that have failed, and asyncio tells of them when they are collected.

    In the middle of another test's `ast.parse` that would end it: telling parses, too, and Python 3.11 counts the depth
    of both as one (python/cpython#106905).
    """
    yield
    gc.collect()


@pytest.fixture(
    autouse=True,
    params=[
        "double",
        pytest.param(
            "checkout",
            marks=[pytest.mark.slow, pytest.mark.skipif(not CHECKOUT, reason="no slime checkout: SLIME_CHECKOUT=PATH")],
        ),
    ],
)
def slime(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """slime's loops on the path, with a state of their own for each test."""
    monkeypatch.syspath_prepend(str(DOUBLE) if request.param == "double" else CHECKOUT)
    if request.param == "checkout":
        _without_models_and_router(monkeypatch)
    yield
    for name in [name for name in sys.modules if name == "slime" or name.startswith("slime.")]:
        del sys.modules[name]


def _without_models_and_router(monkeypatch: pytest.MonkeyPatch) -> None:
    """What slime's loops import and these tests have no use for: tokenizers, data sets, rewards, SGLang's router."""

    async def stop(urls: list[str]) -> None:
        async with httpx.AsyncClient(trust_env=False) as client:
            for url in urls:
                await client.post(f"{url}/abort_request", json={"abort_all": True}, timeout=60)

    async def get(url: str) -> dict[str, Any]:
        return {"workers": [{"url": url.removesuffix("/workers")}]}

    async def post(url: str, payload: dict[str, Any]) -> None:
        await stop([url.removesuffix("/abort_request")])

    nothing = dict.fromkeys(("build_processor_kwargs", "encode_image_for_rollout_engine"))
    loads = dict.fromkeys(("load_processor", "load_tokenizer"), lambda *_, **__: None)
    known: dict[str, dict[str, Any]] = {
        "sglang_router": {"__version__": "0.3.2"},
        "slime.utils.data": {"Dataset": None},
        "slime.utils.processing_utils": {**nothing, **loads},
        "slime.rollout.rm_hub": dict.fromkeys(("async_rm", "batched_async_rm"), _no_rewards_left),
        "slime.backends.sglang_utils.server_control": {"abort_servers_until_idle": stop},
    }
    for name, content in known.items():
        module = ModuleType(name)
        vars(module).update(content)
        monkeypatch.setitem(sys.modules, name, module)
    loop = importlib.import_module("slime.rollout.sglang_rollout")
    monkeypatch.setattr(loop, "get", get)
    monkeypatch.setattr(loop, "post", post)


async def _no_rewards_left(args: Namespace, samples: Any) -> list[float]:
    assert samples == [], "every sample has its reward already"
    return []


def rules() -> ModuleType:
    """The double's rules of a rollout's output, for the Samples of whichever slime is on the path."""
    spec = importlib.util.spec_from_file_location("slime_rules", DOUBLE / "slime/ray/rollout.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def checked(args: Namespace, output: Any, rollout_id: int) -> list[int]:
    """What slime and `t1 audit` hold a rollout to; the numbers of its trials."""
    slimes = rules()
    samples = slimes.flatten(output.samples, args.n_samples_per_prompt)
    raw, shaped = hooks.group_rewards(args, samples)
    data = slimes.train_data(samples, raw, shaped, replay=True)
    path = Path(args.t1["run_dir"]) / "rollouts" / f"rollout_{rollout_id:06d}.npz"
    rows = load_rows(path)
    assert [sample.tokens for sample in samples] == [row.tokens.tolist() for row in rows]
    assert [sample.loss_mask for sample in samples] == [row.loss_mask[row.response_start :].tolist() for row in rows]
    metrics = {name: {rollout_id: value} for name, value in output.metrics.items()}
    found = audit_run([path], metrics=metrics, gap={}, replay=True)
    assert found.faults == [] and found.balance is not None and found.balance.unaccounted == 0
    assert output.metrics["terminal/unaccounted_tokens"] == 0
    assert output.metrics["terminal/groups"] == args.rollout_batch_size
    units = sorted(set(data["group_ids"]))
    assert len(units) == args.rollout_batch_size * args.n_samples_per_prompt, "the batch is full"
    return units


def logged(args: Namespace) -> list[dict[str, Any]]:
    """Every trial on record, in the order they ended."""
    files = sorted((Path(args.t1["run_dir"]) / "trials").glob("rollout_*.jsonl"))
    return [json.loads(line) for path in files for line in path.read_text().splitlines()]


def test_three_rollouts_of_the_stock_loop_with_surplus_groups(make: Make) -> None:
    args = make("stock", {}, n_samples_per_prompt=2, over_sampling_batch_size=3)
    source, booked = hooks.TaskSource(args), 0.0
    for rollout_id in range(3):
        output = hooks.generate_rollout_by_slime(args, rollout_id, source)
        checked(args, output, rollout_id)
        assert output.metrics.get("terminal/masked_tokens/infrastructure", 0) == 0, "an abort is no fault of anybody's"
        booked += output.metrics["terminal/sampled_tokens"]
    trials = logged(args)
    assert len({trial["trial_id"] for trial in trials}) == len(trials)
    assert booked == sum(trial["sampled_tokens"] + trial["lost_tokens"] for trial in trials)


def test_aborted_groups_are_given_back_under_partial_rollouts(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    args = make("partial", {"unfinished": "repeat"}, over_sampling_batch_size=4, partial_rollout=True)
    first_held = [2]
    hold_back(monkeypatch, lambda plan: plan.group_id >= first_held[0])
    source = hooks.TaskSource(args)
    assert checked(args, hooks.generate_rollout_by_slime(args, 0, source), 0) == [0, 1]
    first_held[0] = 4
    assert checked(args, hooks.generate_rollout_by_slime(args, 1, source), 1) == [2, 3]
    cancelled = [trial for trial in logged(args) if trial["boundary"] == "cancelled"]
    assert {trial["group_id"] for trial in cancelled[:2]} == {2, 3} and not any(trial["scored"] for trial in cancelled)


def test_the_stock_loop_trains_on_no_group_with_a_lost_trial(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """Prompt 0 can never be played; the first try of prompt 1 is lost, and the spec's filter drops what it comes to."""
    seen: list[int] = []

    def all_but_the_second(args: Namespace, group: list[Any]) -> SimpleNamespace:
        seen.append(group[0].group_index)
        return SimpleNamespace(keep=seen[-1] != 1, reason="second")

    module = ModuleType("loop_filters")
    vars(module).update(all_but_the_second=all_but_the_second)
    monkeypatch.setitem(sys.modules, "loop_filters", module)
    args = make("lost", {"dynamic_filter": "loop_filters.all_but_the_second"})
    lose(monkeypatch, {(0, None): "prompt_over_context", (1, 0): "sandbox_create"})
    hold_back(monkeypatch, lambda plan: plan.group_id > 1 and 1 not in seen)
    output = hooks.generate_rollout_by_slime(args, 0, hooks.TaskSource(args))
    assert len(checked(args, output, 0)) == 2 and {0, 1}.isdisjoint(group[0][0].group_index for group in output.samples)
    metrics = output.metrics
    assert metrics["rollout/dynamic_filter/drop_lost"] == 1 and metrics["rollout/dynamic_filter/drop_second"] == 1
    assert metrics["terminal/masked_tokens/filter"] > 0
    assert metrics["terminal/failed_by_cause/sandbox_create"] == 1


@pytest.mark.parametrize("cause", ["sandbox_create", "prompt_over_context"])
def test_a_batch_that_cannot_fill_ends_the_rollout(make: Make, monkeypatch: pytest.MonkeyPatch, cause: str) -> None:
    for loop, name in ((hooks.generate_rollout_by_slime, "down"), (hooks.generate_rollout_fully_async, "down_async")):
        args = make(name, _pipeline(name), n_samples_per_prompt=1)
        lose(monkeypatch, {(None, None): cause})
        monkeypatch.setattr("t1cli.plugin.slime_loops.refill_seconds", lambda spec: 1.0)
        with pytest.raises(RolloutAborted, match=f"{cause} × "):
            loop(args, 0, hooks.TaskSource(args))


def test_missing_routing_ends_the_rollout_and_drops_nothing(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """slime's asynchronous worker only logs what a trial raises; dropping it would condition the batch on a capture."""

    async def missing(self: Any) -> TrialResult:
        raise MissingRouting("no rows")

    monkeypatch.setattr("t1cli.terminal.rollout.trial.Trial.run", missing)
    for loop, name in ((hooks.generate_rollout_by_slime, "blind"), (hooks.generate_rollout_fully_async, "blind_async")):
        args = make(name, _pipeline(name))
        with pytest.raises(MissingRouting):
            loop(args, 0, hooks.TaskSource(args))


def test_three_batches_of_the_asynchronous_worker(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """One group has two trials, whatever rows they come to; what finishes beside a batch waits for the next one."""
    args = make("async", FULLY_ASYNC, n_samples_per_prompt=2)
    source, units, ahead = hooks.TaskSource(args), list[int](), list[int]()
    drawn = source.get_samples

    def counted(number: int) -> list[list[Any]]:
        found = drawn(number)
        ahead.append(source.under_way)
        return found

    kept: list[Path] = []
    monkeypatch.setattr(source, "get_samples", counted)
    monkeypatch.setattr("t1cli.plugin.slime_loops.keep", lambda settings: kept.append(settings.actor_dir))
    sampled = 0.0
    for rollout_id in range(3):
        output = hooks.generate_rollout_fully_async(args, rollout_id, source)
        units += checked(args, output, rollout_id)
        sampled += output.metrics["terminal/sampled_tokens"]
    assert len(kept) == 3, "checkpoints are kept before each rollout"
    assert max(ahead) <= 4, "never more than max_staleness batches ahead"
    assert len(set(units)) == len(units) == 12, "every trial was trained on once"
    trials = logged(args)
    assert sampled == sum(trial["sampled_tokens"] + trial["lost_tokens"] for trial in trials), (
        "all is booked at the end"
    )
    assert trial_book(settings_text(args)).book([], waits=False).ended == ()


def test_a_weight_push_in_mid_reply_costs_the_reply_and_not_the_trial(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The engine aborts the first request of each reply, as it does when slime pauses it."""
    really, cut_off = EngineClient.generate, list[int]()

    async def pushed(self: EngineClient, prompt_ids: tuple[int, ...], *, rid: str, sampling: Sampling) -> Generation:
        asking = asyncio.create_task(really(self, prompt_ids, rid=rid, sampling=sampling))
        if "-p" not in rid.rpartition("-t")[2]:
            await asyncio.sleep(0.01)
            await self.abort(rid)
        reply = await asking
        cut_off.extend([len(reply.sampled_ids)] if reply.finish_reason == "abort" else [])
        return reply

    monkeypatch.setattr(EngineClient, "generate", pushed)
    args = make("pushed", FULLY_ASYNC, num_rollout=1)
    output = hooks.generate_rollout_fully_async(args, 0, hooks.TaskSource(args))
    checked(args, output, 0)
    assert cut_off, "replies were cut off"
    assert output.metrics["terminal/failed"] == 0


def test_groups_that_are_too_old_are_given_back(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    args = make("stale", FULLY_ASYNC)
    seen: list[int] = []

    def first_is_late(self: Any, rollout_id: int, rows: list[TrainingRow]) -> bool:
        seen.append(rows[0].group_id)
        return len(seen) == 1

    monkeypatch.setattr("t1cli.terminal.trajectory.versions.VersionClock.is_late", first_is_late)
    source = hooks.TaskSource(args)
    output = hooks.generate_rollout_fully_async(args, 0, source)
    late = seen[0]
    checked(args, output, 0)
    assert output.metrics["terminal/masked_tokens/staleness"] > 0
    while late not in seen[1:]:
        args.num_rollout, rollout_id = args.num_rollout + 1, len(seen)
        hooks.generate_rollout_fully_async(args, rollout_id, source)
    args.num_rollout = 0
    hooks.generate_rollout_fully_async(args, 99, source)
    ids = [trial["trial_id"] for trial in logged(args) if trial["group_id"] == late]
    assert len(ids) == len(set(ids)) >= 2, "it was played again, under a name of its own"


def test_the_worker_gives_a_group_back_that_lost_a_trial(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """Prompt 0 can never be played and is left out; prompt 1 is lost five times and played again."""
    args = make("returned", FULLY_ASYNC, num_rollout=1)
    monkeypatch.setattr("t1cli.plugin.one_trial._FIRST_BACKOFF_SECONDS", 0.001)
    lost = {(0, None): "prompt_over_context", **{(1, attempt): "sandbox_create" for attempt in range(5)}}
    lose(monkeypatch, lost)
    hold_back(monkeypatch, lambda plan: plan.group_id > 2)
    output = hooks.generate_rollout_fully_async(args, 0, hooks.TaskSource(args))
    assert checked(args, output, 0) == [1, 2]
    assert output.metrics["terminal/failed_by_cause/sandbox_create"] == 5


def test_a_resume_plays_what_no_rollout_was_done_with(make: Make, tmp_path: Path) -> None:
    args = make("resume", FULLY_ASYNC, save=str(tmp_path), load=str(tmp_path))
    args.t1 = {**args.t1, "actor_dir": str(tmp_path), "critic_dir": None}
    source = hooks.TaskSource(args)
    drawn = source.get_samples(6)
    source.settle(0, [1, 0])
    source.settle(1, [3])
    source.add_samples([drawn[5]])
    source.save(0)
    again = hooks.TaskSource(args)
    again.load(0)
    assert [group[0].group_index for group in again.get_samples(5)] == [2, 3, 4, 5, 6]
    # Rollout 1 had group 3 already, but its weights are gone.
    source.save(1)
    again.load(1)
    assert [group[0].group_index for group in again.get_samples(4)] == [2, 4, 5, 6]


def test_entries_of_a_group_are_what_slimes_loops_ask_for() -> None:
    from slime.utils.types import Sample

    made = Siblings([Sample(index=7, group_index=3), Sample(index=7, group_index=3)])
    assert isinstance(made, list) and (made.index, made.response, len(made)) == (7, "", 2)
    lost = lost_sample(Sample(index=7))
    assert lost.status is Sample.Status.ABORTED and lost.reward == 0.0 and lost.remove_sample
    assert lost.response_length == len(lost.loss_mask) == 1 and LOST_FOR_GOOD not in lost.metadata


STOCK: dict[str, Any] = {
    **dict.fromkeys(("hf_checkpoint", "rollout_sample_filter_path", "rollout_all_samples_process_path", "reward_key")),
    **dict.fromkeys(("group_rm", "ci_test", "mask_offpolicy_in_partial_rollout"), False),
    "rollout_num_gpus": 1,
    "rollout_num_gpus_per_engine": 1,
    "sglang_dp_size": None,
    "rollout_max_response_len": 8,
    "rollout_temperature": 1.0,
    "rollout_top_p": 1.0,
    "rollout_top_k": -1,
    "rollout_stop": None,
    "rollout_stop_token_ids": None,
    "rollout_skip_special_tokens": True,
}
"""What slime's loops read besides."""
FULLY_ASYNC = {"pipeline": "fully_async", "max_staleness": 2}


def _pipeline(name: str) -> dict[str, Any]:
    return FULLY_ASYNC if name.endswith("async") else {}


def lose(monkeypatch: pytest.MonkeyPatch, lost: Mapping[tuple[int | None, int | None], str]) -> None:
    """Trials of (group, attempt) end with that cause; null: whichever."""
    from t1cli.terminal.rollout.trial import Trial

    really = Trial.run

    async def run(self: Trial) -> TrialResult:
        plan = self.plan
        for key in ((plan.group_id, plan.attempt), (plan.group_id, None), (None, None)):
            if key in lost:
                return TrialResult(plan, Outcome(False, StopReason.FAILED, Boundary.PROVIDER, lost[key]))
        return await really(self)

    monkeypatch.setattr(Trial, "run", run)


def hold_back(monkeypatch: pytest.MonkeyPatch, which: Callable[[Any], bool]) -> None:
    """Trials that do not begin while that is so; they can be cancelled meanwhile."""
    from t1cli.terminal.rollout.trial import Trial

    really = Trial.run

    async def run(self: Trial) -> TrialResult:
        try:
            while which(self.plan):
                await asyncio.sleep(0.02)
        except asyncio.CancelledError:
            return self.cancelled_result()
        return await really(self)

    monkeypatch.setattr(Trial, "run", run)
