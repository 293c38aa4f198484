"""Every mistake is reported, all at once, where it stands, with a near name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from t1cli.errors import BadInput, Diagnostic
from t1cli.spec import renamed
from t1cli.spec.load import load_experiment
from t1cli.spec.locate import preset_names

Break = Callable[..., list[Diagnostic]]


@pytest.mark.parametrize(
    ("line", "message", "hint"),
    [
        ("  max_turn: 3", "unknown key `max_turn` in `rollout`", "did you mean `max_turns`?"),
        ("  tp: 2", "unknown key `tp` in `rollout`", "`tp` belongs to `topology.tp`"),
        (
            "  n_samples_per_prompt: 8",
            "unknown key `n_samples_per_prompt` in `rollout`",
            "this is `rollout.samples_per_prompt` here",
        ),
        (
            "  pipeline: asynch",
            '`rollout.pipeline` must be sync or one_step or fully_async, found "asynch"',
            "did you mean `sync`?",
        ),
        ("  top_p: 2", "`rollout.top_p` must be at most 1, found 2", ""),
        ("  summary: 3", "`rollout.summary` must be a block of keys, found 3", ""),
    ],
)
def test_one_mistake(base: str, problems: Break, line: str, message: str, hint: str) -> None:
    (problem,) = problems(base + line + "\n")
    assert (problem.message, problem.hint) == (message, hint)
    assert problem.where == "experiment.yaml:19:3"


def test_a_missing_key_is_placed_at_its_block(base: str, problems: Break) -> None:
    (problem,) = problems(base.replace("  batch_size: 4\n", ""))
    assert problem.message == "`rollout.batch_size` is missing"
    assert problem.where == "experiment.yaml:10:1"


def test_a_mistake_in_a_union_is_found_under_its_tag(base: str, problems: Break) -> None:
    text = base + "reward:\n  length:\n    kind: multiplicative\n    free_turn: 3\n"
    (problem,) = problems(text)
    assert problem.message == "unknown key `free_turn` in `reward.length` (kind: multiplicative)"
    assert problem.where == "experiment.yaml:22:5"


def test_a_wrong_kind_is_placed_at_the_kind(base: str, problems: Break) -> None:
    (problem,) = problems(base + "algorithm:\n  kind: pppo\n")
    assert problem.message == '`algorithm.kind` must be ppo or grpo, found "pppo"'
    assert (problem.where, problem.hint) == ("experiment.yaml:20:3", "did you mean `ppo`?")


def test_a_mistake_inside_a_list_is_placed_at_the_item(base: str, problems: Break) -> None:
    (problem,) = problems(base + "watch:\n  packs:\n    - terminal\n    - 3\n")
    assert problem.message == "`watch.packs[1]` must be text, found 3"
    assert problem.where == "experiment.yaml:22:7"


@pytest.mark.parametrize(
    ("listed", "message", "hint"),
    [
        ("model/t1-tny", "no preset `model/t1-tny`", "did you mean `model/t1-tiny`?"),
        ("laptop", "no preset `laptop`", "did you mean `hardware/laptop`?"),
        ("../secrets", "no preset `../secrets`", None),
        ("sandbox/local", "preset `sandbox/local` is listed twice, first at experiment.yaml:9", ""),
        (
            "reward/binary",
            "preset `reward/ctrf-count-20` has no effect: later layers replace everything that it gives",
            "remove it from the list",
        ),
    ],
)
def test_presets_that_are_wrong(base: str, problems: Break, listed: str, message: str, hint: str | None) -> None:
    (problem,) = problems(base.replace("rollout:", f"  - {listed}\nrollout:"))
    assert problem.message == message
    assert hint is None or problem.hint == hint


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("rollout.batch_size", "`rollout.batch_size` has no `=`"),
        ("=3", "`` is no dotted key"),
        ("rollout..batch_size=3", "`rollout..batch_size` is no dotted key"),
        ("rollout.batch_size=", "`rollout.batch_size` is given no value"),
        ("tasks.families=[a", "not YAML: expected ',' or ']', but got '<stream end>'"),
        ("rollout.batch_sze=3", "unknown key `batch_sze` in `rollout`"),
        ("rollout.batch_size=few", '`rollout.batch_size` must be a whole number, found "few"'),
        ("watch.packs.0=x", "`watch.packs` must be a list, found a block of keys"),
        ("presets=[model/qwen3-8b]", "presets are listed in the file alone"),
    ],
)
def test_overrides_that_are_wrong(base: str, problems: Break, override: str, message: str) -> None:
    (problem,) = problems(base, override)
    assert (problem.message, problem.where) == (message, "--set")
    assert problem.source_line == f"--set {override}"


@pytest.mark.parametrize(
    ("overrides", "key", "message"),
    [
        (["rollout.over_sampling_batch_size=3"], "over_sampling_batch_size", "is below batch_size 4"),
        (["rollout.max_staleness=2"], "max_staleness", "under `pipeline: sync`"),
        (["rollout.pipeline=one_step", "rollout.max_staleness=2"], "max_staleness", "lags by exactly 1"),
        (["rollout.pipeline=fully_async"], "rollout:", "could never train"),
        (["rollout.unfinished=continue"], "rollout:", "trains turns that are 1 weight version old"),
        (
            ["rollout.pipeline=one_step", "rollout.max_staleness=1", "rollout.unfinished=continue"],
            "max_staleness",
            "2 weight versions old or older, max_staleness 1 forbids",
        ),
        (
            ["rollout.pipeline=fully_async", "rollout.max_staleness=2", "rollout.unfinished=continue"],
            "unfinished",
            "nothing is unfinished under `pipeline: fully_async`",
        ),
        (
            ["rollout.pipeline=fully_async", "rollout.max_staleness=2", "rollout.unfinished=repeat"],
            "unfinished",
            "nothing is unfinished under `pipeline: fully_async`",
        ),
        (
            ["engine={kind: slime, rollout_loop: slime}", "rollout.unfinished=continue", "rollout.max_staleness=1"],
            "unfinished",
            "slime's stock rollout aborts what is unfinished",
        ),
        (["rollout.summary.trigger_tokens=9"], "summary.trigger_tokens", "without summaries"),
        (
            ["rollout.summary={kind: summarize, trigger_tokens: 600, max_new_tokens: 9}"],
            "summary",
            "never reached below the wall of 512",
        ),
        (["rollout.max_new_tokens_per_turn=513"], "max_new_tokens", "exceeds the wall of 512"),
        (["rollout.observation_tokens=512"], "observation_tokens", "fills the wall of 512"),
        (["rollout.command_timeout_seconds=61"], "command_timeout_seconds", "the whole trial only 60 s"),
        (["checkpoint={actor_dir: /a, critic_dir: /a/}"], "checkpoint", "overwrites the actor"),
        (["topology.vpp=2"], "vpp", "with one pipeline stage"),
        (["topology.pp=49"], "pp", "for 48 layers"),
        (["topology.train_nodes=2"], "train_nodes", "2 training nodes on a cluster of 1"),
        (["topology={colocated: true, rollout_gpus: 8}"], "topology", "colocated with 0 training GPUs"),
        (["model.architecture.num_experts_per_tok=129"], "num_experts_per_tok", "129 experts per token of 128"),
        (
            ["model.architecture={num_experts: 0, intermediate_size: 0}"],
            "architecture",
            "dense layers need `intermediate_size`",
        ),
        (["model.architecture.num_key_value_heads=3"], "num_key_value_heads", "32 heads over 3"),
        (["algorithm.critic.warm_from_reward=binary"], "warm_from_reward", "no checkpoint to load"),
        (["algorithm={kind: grpo, actor_learning_rate: 1e-6}"], "", "every advantage is 0"),
        (
            ["algorithm={kind: grpo, actor_learning_rate: 1e-6, steps_per_rollout: 3}", "rollout.samples_per_prompt=2"],
            "steps_per_rollout",
            "8 samples cannot be cut into 3 equal steps",
        ),
    ],
)
def test_contradictions(base: str, problems: Break, overrides: list[str], key: str, message: str) -> None:
    found = problems(base, *overrides)
    assert len(found) == 1
    assert message in found[0].message
    assert key in found[0].source_line


def test_a_contradiction_is_reported_beside_an_error_elsewhere(base: str, problems: Break) -> None:
    found = problems(base, "rollout.over_sampling_batch_size=3", "topology.tp=two")
    assert [problem.source_line for problem in found] == [
        "--set topology.tp=two",
        "--set rollout.over_sampling_batch_size=3",
    ]


def test_a_missing_preset_does_not_blame_its_keys(base: str, problems: Break) -> None:
    assert len(problems(base.replace("algorithm/ppo-t1", "algorithm/ppo-t2"))) == 1


def test_a_renamed_key_names_its_successor(base: str, problems: Break, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(renamed, "RENAMED", {"rollout.turn_limit": "rollout.max_turns"})
    (problem,) = problems(base + "  turn_limit: 3\n")
    assert problem.hint == "this key is now `rollout.max_turns`"


def test_references_are_resolved_and_stay_inside(base: str, problems: Break) -> None:
    text = base + "  harness: ${rollout.nowhere}\n  expected_seconds: ${oc.env:HOME}\n"
    assert [problem.message for problem in problems(text)] == [
        "cannot resolve `${rollout.nowhere}`: Interpolation key 'rollout.nowhere' not found",
        "`${oc.env:HOME}` asks for something outside the spec",
    ]


def test_a_missing_block_names_the_presets_that_give_it(tmp_path: Path) -> None:
    (tmp_path / "experiment.yaml").write_text("name: mine\n")
    with pytest.raises(BadInput) as error:
        load_experiment(tmp_path)
    hints = {problem.message: problem.hint for problem in error.value.diagnostics}
    for block in ("model", "hardware", "topology", "tasks", "reward"):
        given_by = [name for name in preset_names() if name.startswith(f"{block}/")]
        assert given_by and f"Presets that give it: {', '.join(given_by)}" in hints[f"`{block}` is missing"]
