"""A spec as slime's command: what follows from what, and what is refused."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from t1cli.plan.build import build_plan
from t1cli.slime.arguments.table import load_table
from t1cli.slime.compile.campaign import Compiled, compile_campaign, key_of
from t1cli.slime.compile.decode import comparable
from t1cli.slime.compile.places import Places, unplaced
from t1cli.slime.compile.table import OWNER, TABLE
from t1cli.slime.start_point import StartPoint
from t1cli.spec.experiment import ExperimentSpec
from t1cli.spec.fields import all_keys
from t1cli.spec.load import load_experiment


def compiled(*overrides: str, name: str = "t1-strategy15k", start: StartPoint | None = None) -> Compiled:
    spec = load_experiment(Path(name), overrides).spec
    places = unplaced(spec)
    return compile_campaign(spec, Places(places.actor_dir, places.critic_dir, start or StartPoint()))


def value(of: Compiled, flag: str) -> Any:
    found = comparable(of.argv, load_table("0.3.0")).get(flag)
    return None if found is None else (found[0] if len(found) == 1 else list(found))


def roles(of: Compiled) -> dict[str, dict[str, Any]]:
    assert of.role_file is not None
    return {entry["role"]: entry["overrides"] for entry in of.role_file["megatron"]}


def ids(of: Compiled, severity: str = "error") -> set[str]:
    return {problem.id for problem in of.problems if problem.severity == severity}


def test_every_row_speaks_of_real_keys_and_real_flags() -> None:
    keys, table = {key for key, _ in all_keys(ExperimentSpec)}, load_table("0.3.0")
    for row in TABLE:
        assert set(row.keys) <= keys, row.keys
        assert all(table.find(flag) is not None for flag in row.flags), row.flags
    flags = [flag for row in TABLE for flag in row.flags]
    assert len(flags) == len(set(flags)), "one table, one row for a flag"
    assert all(table.find(flag) is not None for flag in OWNER)


def test_dotted_paths_given_to_slime_exist() -> None:
    hooks = (Path(__file__).parents[3] / "t1cli/plugin/hooks.py").read_text()
    for name in ("t1-strategy15k", "qwen3-8b-grpo"):
        words = compiled("rollout.pipeline=fully_async", name=name).argv
        for word in (*words, *compiled("engine.rollout_loop=slime", name=name).argv):
            if word.startswith("t1cli.plugin.hooks."):
                function = word.rpartition(".")[2]
                assert re.search(rf"def {function}\(|\"{function}\"", hooks), word


@pytest.mark.catalogue("C9")
def test_deltanet_is_split_by_our_layers_where_the_spec_says_so_under_context_parallelism() -> None:
    slimes = ["slime_plugins.models.qwen3_5", "get_qwen3_5_spec"]
    assert value(compiled(), "--spec") == ["t1cli.plugin.hooks", "qwen3_5_spec"]
    assert value(compiled("trainer.gdn_context_parallel=none"), "--spec") == slimes
    assert value(compiled("topology.cp=1"), "--spec") == slimes
    other = compiled("model.megatron.spec=[somewhere.else, layers]")
    assert "M6" in ids(other) and value(other, "--spec") == ["somewhere.else", "layers"]
    for row in (row for row in TABLE if "--spec" in row.flags):
        read = row.decode({"--spec": ["t1cli.plugin.hooks", "qwen3_next_spec"]})
        assert read == {
            "model.megatron.spec": ["slime_plugins.models.qwen3_next", "get_qwen3_next_spec"],
            "trainer.gdn_context_parallel": "native",
        }


def test_an_asynchronous_campaign_keeps_the_old_actor_and_pushes_every_step() -> None:
    assert compiled().entry == "train_async.py"
    assert value(compiled(), "--keep-old-actor") is True and value(compiled(), "--update-weights-interval") == 1
    sync = compiled("rollout.pipeline=sync", "rollout.max_staleness=0")
    assert sync.entry == "train.py" and value(sync, "--keep-old-actor") is None and sync.evaluation_argv is None


def test_the_first_evaluation_of_an_asynchronous_campaign_is_a_job_of_its_own() -> None:
    first = compiled().evaluation_argv
    assert first is not None
    arguments = comparable(first, load_table("0.3.0"))
    assert arguments["--num-rollout"] == (0,) and arguments["--eval-interval"] == (10,)
    assert "--save" not in arguments and "--keep-old-actor" not in arguments
    assert compiled("evaluation.before_training=false").evaluation_argv is None
    assert compiled(start=StartPoint("resume", 9)).evaluation_argv is None
    assert compiled(name="qwen3-8b-grpo").evaluation_argv is None


def test_fully_async_goes_through_slimes_own_worker() -> None:
    found = compiled("rollout.pipeline=fully_async", "rollout.max_staleness=2")
    assert value(found, "--rollout-function-path") == "t1cli.plugin.hooks.generate_rollout_fully_async"
    assert value(found, "--custom-generate-function-path") == "t1cli.plugin.hooks.generate"
    assert value(found, "--eval-function-path") == "t1cli.plugin.hooks.generate_rollout"
    assert value(found, "--dynamic-sampling-filter-path") is None
    assert not ids(found)
    filtered = compiled("rollout.pipeline=fully_async", "rollout.max_staleness=2", "rollout.dynamic_filter=own.filter")
    assert "T-noop" in ids(filtered), "nothing filters there"


def test_slimes_stock_loop_plays_single_trials_where_the_spec_says_so() -> None:
    found = compiled("engine.rollout_loop=slime", "rollout.dynamic_filter=own.filters.some")
    assert value(found, "--rollout-function-path") == "t1cli.plugin.hooks.generate_rollout_by_slime"
    assert value(found, "--custom-generate-function-path") == "t1cli.plugin.hooks.generate"
    assert value(found, "--eval-function-path") == "t1cli.plugin.hooks.generate_rollout"
    assert value(found, "--dynamic-sampling-filter-path") == "t1cli.plugin.hooks.filter_group"
    assert value(found, "--partial-rollout") is None and not ids(found)
    assert value(compiled("engine.rollout_loop=slime"), "--dynamic-sampling-filter-path") is not None
    again = compiled("engine.rollout_loop=slime", "rollout.unfinished=repeat")
    assert value(again, "--partial-rollout") is True and not ids(again)
    assert value(compiled("rollout.unfinished=repeat"), "--partial-rollout") is None
    both = compiled("engine.rollout_loop=slime", "rollout.pipeline=fully_async", "rollout.max_staleness=2")
    assert value(both, "--rollout-function-path") == "t1cli.plugin.hooks.generate_rollout_fully_async" and not ids(both)


@pytest.mark.parametrize(
    "start,actor,critic,base",
    [
        (StartPoint(), {}, {"load": "/checkpoints/t1-binary-tmax/critic"}, None),
        (StartPoint("resume", 20), {}, {"load": "CRITIC"}, "ACTOR"),
        (StartPoint("resume", 20, 10, 10), {"ckpt_step": 10}, {"load": "CRITIC", "ckpt_step": 10}, "ACTOR"),
        (
            StartPoint("critic_only"),
            {},
            {
                "load": "CRITIC",
                "finetune": False,
                "no_load_optim": False,
                "no_load_rng": False,
                # Megatron refuses another schedule than the saved one, and the campaign may have become longer.
                "override_opt_param_scheduler": True,
            },
            None,
        ),
    ],
)
def test_each_role_loads_what_its_start_says(
    start: StartPoint, actor: dict[str, Any], critic: dict[str, Any], base: str | None
) -> None:
    found = compiled(start=start)
    places = unplaced(load_experiment(Path("t1-strategy15k")).spec)
    names = {"ACTOR": places.actor_dir, "CRITIC": places.critic_dir}
    by_role = roles(found)
    assert by_role["actor"] == {"save": places.actor_dir, "lr": 1e-6, **actor}
    expected = {key: names.get(item, item) if isinstance(item, str) else item for key, item in critic.items()}
    assert by_role["critic"] == {"save": places.critic_dir, "lr": 1.5e-5, **expected}
    assert value(found, "--load") == (names[base] if base else None)


@pytest.mark.catalogue("C8")
def test_weights_only_saves_are_resumed_without_optimizer() -> None:
    found = compiled(start=StartPoint("resume", 20, weights_only=True))
    assert value(found, "--no-load-optim") is True and value(found, "--no-save-optim") is True


def test_steps_and_batch_are_explicit_and_agree() -> None:
    found = compiled("algorithm.steps_per_rollout=4", name="qwen3-8b-grpo")
    assert value(found, "--global-batch-size") == 32 and value(found, "--num-steps-per-rollout") == 4
    assert not ids(found)


def test_corrections() -> None:
    record, apply = compiled(), compiled("algorithm.correction.kind=apply")
    assert value(record, "--get-mismatch-metrics") is True and value(record, "--use-tis") is None
    assert value(apply, "--use-tis") is True and value(apply, "--custom-tis-function-path") is None
    assert value(compiled("algorithm.correction.kind=none"), "--tis-clip") is None


@pytest.mark.catalogue("M9")
def test_the_environment_keeps_expandable_segments_out_of_offloaded_trainers() -> None:
    assert compiled().environment["PYTORCH_CUDA_ALLOC_CONF"] == ""
    assert compiled("trainer.expandable_segments=true").environment["PYTORCH_CUDA_ALLOC_CONF"] == ""
    alone = compiled("trainer.expandable_segments=true", name="qwen3-8b-grpo")
    assert alone.environment["PYTORCH_CUDA_ALLOC_CONF"] == "expandable_segments:True"
    assert compiled().environment["CUDA_DEVICE_MAX_CONNECTIONS"] == "1"
    assert "T-owned" in ids(compiled("engine.env.PYTHONPATH=/mine"))


@pytest.mark.parametrize(
    "entry,id_,words",
    [
        ("lr=1e-5", "T-owned", "algorithm.actor_learning_rate"),
        ("sglang-ep-size=4", "T-owned", "engine.sglang.expert_parallel"),
        ("megatron-config-path=/r.yaml", "T-owned", "algorithm.critic"),
        ("rollout-batchsize=4", "T-unknown", "--rollout-batch-size"),
        ("critic-lr=1e-5", "T-removed", "--megatron-config-path"),
        ("eps-clip-c=3.0", "T-noop", "leave it out"),
        ("partial-rollout=false", "T-value", "leave it out"),
        ("manual-gc=7", "T-stray", "remove it"),
    ],
)
def test_slime_args_are_checked_and_what_t1_owns_is_refused(entry: str, id_: str, words: str) -> None:
    found = compiled(f"slime_args.{entry}")
    (problem,) = [problem for problem in found.problems if problem.id == id_]
    assert problem.severity == "error" and words in problem.fix
    loaded = load_experiment(Path("t1-strategy15k"), [f"slime_args.{entry}"])
    finding = next(f for f in build_plan(loaded).findings if f.id == id_)
    assert finding.where == "--set" and not build_plan(loaded).accepted_for_launch


def test_slime_args_of_every_kind_become_arguments() -> None:
    found = compiled(
        "slime_args.manual-gc=true", "slime_args.freeze-params-name-list=[a, b]", "slime_args.rollout-top-k=5"
    )
    assert not ids(found)
    assert value(found, "--manual-gc") is True and value(found, "--rollout-top-k") == 5
    assert value(found, "--freeze-params-name-list") == ["a", "b"]


def test_left_out_arguments_are_said() -> None:
    found = compiled("engine.leave_out=[--clip-grad, --nothing]")
    assert value(found, "--clip-grad") is None
    assert {p.severity for p in found.problems if p.id == "T-left"} == {"warning", "error"}


def test_an_unknown_version_is_a_finding_not_a_guess() -> None:
    plan = build_plan(load_experiment(Path("t1-strategy15k"), ["engine.version=0.9.0"]))
    (finding,) = [f for f in plan.findings if f.id == "T-version"]
    assert "0.9.0" in finding.message and "0.3.1" in finding.fix and not plan.accepted_for_launch


def test_the_next_version_has_its_own_table() -> None:
    assert not ids(compiled("engine.version=0.3.1")) and not ids(compiled("engine.version=v0.3.0"))
    assert "T-unknown" in ids(compiled("slime_args.release-train=true"))
    assert "T-release" in ids(compiled("engine.version=0.3.1", "slime_args.release-train=true"))


def test_flags_lead_back_to_keys() -> None:
    assert key_of("--global-batch-size") == "algorithm.steps_per_rollout"
    assert key_of("--manual-gc") == "slime_args.manual-gc"


def test_a_resume_with_the_optimizer_may_have_another_schedule() -> None:
    flag = "--override-opt_param-scheduler"
    full, weights = StartPoint("resume", 20), StartPoint("resume", 20, weights_only=True)
    assert flag in compiled(start=full).argv and flag not in compiled(start=weights).argv
    assert flag not in compiled().argv
    # It is an argument that this slime has: another spelling would be dropped without a word.
    assert not [problem for problem in compiled(start=full).problems if problem.flag == flag]
