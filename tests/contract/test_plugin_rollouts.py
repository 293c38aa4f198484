"""Three rollouts on the embedded server through the hooks, in real sandboxes, held to slime's rules by the double."""

from __future__ import annotations

import asyncio
import sys
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from t1cli.plugin import hooks
from t1cli.terminal.trajectory.store import load_rows
from tests.contract.slime_session import engine_of, session_settings, small_spec

DOUBLE = Path(__file__).parent / "slime_double"
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def args(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Namespace]:
    """slime's namespace with an engine behind it."""
    root, spec = tmp_path_factory.mktemp("plugin"), small_spec()
    with engine_of(spec, root) as engine:
        sys.path.insert(0, str(DOUBLE))
        yield Namespace(
            t1=session_settings(spec, root / "runs/quickstart/attempt_1"),
            **engine,
            n_samples_per_prompt=1,
            rollout_batch_size=2,
            global_batch_size=2,
            save=None,
            load=None,
            tis_clip=2.0,
            sglang_server_concurrency=64,
        )
        sys.path.remove(str(DOUBLE))
    for name in [name for name in sys.modules if name == "slime" or name.startswith("slime.")]:
        del sys.modules[name]


@pytest.mark.timeout(300)
def test_three_rollouts_keep_slimes_rules(args: Namespace) -> None:
    from slime.ray.rollout import flatten, train_data

    run, units = Path(args.t1["run_dir"]), []
    for rollout_id in range(3):
        output = hooks.generate_rollout(args, rollout_id, None, evaluation=False)
        samples = flatten(output.samples, args.n_samples_per_prompt)
        raw, shaped = hooks.group_rewards(args, samples)
        data = train_data(samples, raw, shaped, replay=True)
        assert len(set(data["group_ids"])) == args.global_batch_size, "the batch is full"
        assert output.metrics["terminal/groups"] == 2 and raw == [s.metadata["raw_reward"] for s in samples]
        rows = load_rows(run / "rollouts" / f"rollout_{rollout_id:06d}.npz")
        assert [sample.tokens for sample in samples] == [row.tokens.tolist() for row in rows]
        units += data["group_ids"]
    assert len(set(units)) == 6, "no number of a trial repeats over rollouts"


@pytest.mark.timeout(300)
def test_one_trial_for_slimes_own_loops(args: Namespace) -> None:
    from slime.ray.rollout import flatten

    source = hooks.TaskSource(args)
    ((sample,),) = source.get_samples(1)
    found = asyncio.run(hooks.generate(args, sample, {}))
    assert flatten([[found]], 1) and all(one.group_id == sample.index for one in found)
    assert all(one.reward is not None and one.status.value in ("completed", "truncated") for one in found)


@pytest.mark.timeout(300)
def test_a_text_harness_plays_through_the_same_hooks(args: Namespace) -> None:
    """A whole batch, and one trial for slime's own loops: one exact row per trial, as slime wants it."""
    from slime.ray.rollout import flatten, train_data

    rollout = {**args.t1["spec"]["rollout"], "harness": "t1cli.terminal.harness.chat_shell:line"}
    run = str(Path(args.t1["run_dir"]).with_name("attempt_2"))
    ours = {**args.t1, "spec": {**args.t1["spec"], "rollout": rollout}, "run_dir": run}
    text = Namespace(**{**vars(args), "t1": ours})
    output = hooks.generate_rollout(text, 0, None, evaluation=False)
    samples = flatten(output.samples, text.n_samples_per_prompt)
    assert len(samples) == output.metrics["terminal/rows"] == output.metrics["terminal/groups"] == 2
    assert output.metrics["terminal/strict_share"] == 1 and output.metrics["terminal/unaccounted_tokens"] == 0
    raw, shaped = hooks.group_rewards(text, samples)
    assert len(set(train_data(samples, raw, shaped, replay=True)["group_ids"])) == text.global_batch_size
    ((sample,),) = hooks.TaskSource(text).get_samples(1)
    (one,) = asyncio.run(hooks.generate(text, sample, {}))
    assert flatten([[one]], 1) and one.metadata["round_number"] >= 1


@pytest.mark.timeout(300)
def test_groups_that_slimes_filter_drops_are_no_samples_and_booked(
    args: Namespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two of three groups are wanted; the filter, which gets slime's arguments and Samples, drops the first it sees."""
    from slime.ray.rollout import flatten
    from slime.utils.types import Sample

    seen: list[int] = []

    def all_but_the_first(slime_args: Namespace, samples: list[Sample]) -> SimpleNamespace:
        assert slime_args is filtered and all(isinstance(sample, Sample) for sample in samples)
        seen.append(samples[0].group_index)
        return SimpleNamespace(keep=len(seen) > 1, reason="first")

    module = ModuleType("own_filters")
    vars(module).update(all_but_the_first=all_but_the_first)
    monkeypatch.setitem(sys.modules, "own_filters", module)
    rollout = {**args.t1["spec"]["rollout"], "dynamic_filter": "own_filters.all_but_the_first"}
    run = str(Path(args.t1["run_dir"]).with_name("attempt_3"))
    spec = {**args.t1["spec"], "rollout": {**rollout, "over_sampling_batch_size": 3}}
    filtered = Namespace(**{**vars(args), "t1": {**args.t1, "spec": spec, "run_dir": run}})
    output = hooks.generate_rollout(filtered, 0, None, evaluation=False)
    metrics = output.metrics
    assert {sample.group_index for sample in flatten(output.samples, 1)} == set(seen[1:]) and len(seen) == 3
    assert metrics["rollout/dynamic_filter/drop_first"] == 1 and metrics["terminal/filter_undone"] == 0
    assert metrics["terminal/masked_tokens/filter"] > 0 and metrics["terminal/unaccounted_tokens"] == 0


def test_the_task_order_survives_a_resume(args: Namespace, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    saved = Namespace(**{**vars(args), "save": str(tmp_path), "load": str(tmp_path)})
    saved.t1 = {**args.t1, "actor_dir": str(tmp_path), "critic_dir": None}
    saved.advantage_estimator = "grpo"
    one = hooks.TaskSource(saved)
    first = [group[0].metadata["t1_task"] for group in one.get_samples(5)]
    one.add_samples([one.get_samples(1)[0]])
    one.save(3)
    again = hooks.TaskSource(saved)
    again.load(-1)
    assert not caplog.records, "a fresh start has nothing to go on from"
    again.load(2)
    assert "no task position beside rollout 2" in caplog.text
    again.load(3)
    rest = [group[0].metadata["t1_task"] for group in again.get_samples(3)]
    whole = [group[0].metadata["t1_task"] for group in hooks.TaskSource(saved).get_samples(8)]
    assert first + rest == whole


def test_groups_that_came_back_come_first_after_a_resume_whatever_their_place(args: Namespace, tmp_path: Path) -> None:
    saved = Namespace(**{**vars(args), "save": str(tmp_path), "load": str(tmp_path)})
    saved.t1 = {**args.t1, "actor_dir": str(tmp_path), "critic_dir": None}
    saved.advantage_estimator = "grpo"
    one = hooks.TaskSource(saved)
    drawn = one.get_samples(5)
    one.add_samples([drawn[3], drawn[1]])
    one.save(3)
    again = hooks.TaskSource(saved)
    again.load(3)
    assert [group[0].group_index for group in again.get_samples(4)] == [3, 1, 5, 6]
    assert [group[0].group_index for group in one.get_samples(4)] == [3, 1, 5, 6], "as without the interruption"
