"""Rows of `rollout`, `evaluation`, `engine`, `checkpoint` and `tracking`: what is generated, measured and kept."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

from t1cli.slime.arguments.raises import FULLY_ASYNC_FUNCTION
from t1cli.slime.compile.hooks import (
    FILTER_GROUP,
    GENERATE,
    GENERATE_BY_SLIME,
    GENERATE_FULLY_ASYNC,
    GENERATE_ROLLOUT,
)
from t1cli.slime.compile.row import Pair, Reading, Row, Updates, View, switch, text, value, words

P: Final = "engine.prompts"
S: Final = "engine.sglang"
E: Final = "evaluation"
HEALTH_CHECK_SECONDS: Final = 30


def _campaign(view: View) -> bool:
    return not view.from_script


def _script(view: View) -> bool:
    return view.from_script


def _has_evaluation(view: View) -> bool:
    return view.spec.evaluation is not None


def _rollout_function(view: View) -> Sequence[Pair]:
    fully = view.spec.rollout.pipeline == "fully_async"
    if view.from_script:
        named = view.get(f"{P}.rollout_function") or (FULLY_ASYNC_FUNCTION if fully else None)
        return (("--rollout-function-path", (named,)),) if named else ()
    own = GENERATE_BY_SLIME if view.by_slime else GENERATE_ROLLOUT
    return (("--rollout-function-path", (GENERATE_FULLY_ASYNC if fully else own,)),)


def _read_rollout_function(reading: Reading) -> Updates:
    named = reading.get("--rollout-function-path")
    fully = {"rollout.pipeline": "fully_async"} if named in (FULLY_ASYNC_FUNCTION, GENERATE_FULLY_ASYNC) else {}
    if named is None or named == FULLY_ASYNC_FUNCTION:
        return fully
    return {f"{P}.rollout_function": named, **fully}


def _generate_function(view: View) -> Sequence[Pair]:
    named = view.get(f"{P}.generate_function")
    if view.from_script:
        return (("--custom-generate-function-path", (named,)),) if named else ()
    called = view.spec.rollout.pipeline == "fully_async" or view.by_slime
    return (("--custom-generate-function-path", (GENERATE,)),) if called else ()


def _filter(view: View) -> Sequence[Pair]:
    """The spec's filter; under slime's stock loop ours, which calls it."""
    named = FILTER_GROUP if view.by_slime else view.spec.rollout.dynamic_filter
    return (("--dynamic-sampling-filter-path", (named,)),) if named else ()


def _read_filter(reading: Reading) -> Updates:
    named = reading.get("--dynamic-sampling-filter-path")
    return {} if named is None else {"rollout.dynamic_filter": named}


def _routing_replay(view: View) -> Sequence[Pair]:
    return (("--use-rollout-routing-replay", ()),) if view.moe and view.spec.rollout.routing_replay else ()


def _multimodal(view: View) -> Sequence[Pair]:
    keys = view.get(f"{P}.multimodal_keys")
    return (("--multimodal-keys", (json.dumps(keys),)),) if keys else ()


def _cadence(view: View) -> Sequence[Pair]:
    evaluation = view.spec.evaluation
    assert evaluation is not None
    every = evaluation.every_rollouts or view.spec.checkpoint.every_rollouts
    before = view.from_script or evaluation.before_training
    return (("--eval-interval", (text(every),)), *(() if before else (("--skip-eval-before-train", ()),)))


def _read_cadence(reading: Reading) -> Updates:
    if "--eval-interval" not in reading:
        return {}
    before = "--skip-eval-before-train" not in reading
    return {f"{E}.every_rollouts": reading["--eval-interval"], f"{E}.before_training": before}


def _eval_set(view: View) -> Sequence[Pair]:
    evaluation = view.spec.evaluation
    assert evaluation is not None
    return (("--eval-prompt-data", (evaluation.name, evaluation.path)),)


def _read_eval_set(reading: Reading) -> Updates:
    pair = reading.get("--eval-prompt-data")
    if isinstance(pair, list) and len(pair) == 2:
        return {f"{E}.name": pair[0], f"{E}.path": pair[1]}
    return {}


def _eval_top_p(view: View) -> Sequence[Pair]:
    top_p = view.get(f"{E}.top_p")
    return (("--eval-top-p", (text(top_p),)),) if top_p is not None else ()


def _eval_temperature(view: View) -> Sequence[Pair]:
    return (("--eval-temperature", (text(view.get(f"{E}.temperature")),)),)


def _health(view: View) -> Sequence[Pair]:
    """Dead engines are noticed, and rebuilt at the next weight push (catalogue C5)."""
    engine = view.spec.engine
    assert engine.kind == "slime"
    seconds = (text(HEALTH_CHECK_SECONDS),)
    return (
        ("--use-fault-tolerance", ()),
        ("--rollout-health-check-interval", seconds),
        ("--rollout-health-check-timeout", seconds),
        ("--rollout-health-check-first-wait", (text(engine.health_check_first_wait_seconds),)),
    )


def _read_health(reading: Reading) -> Updates:
    if "--use-fault-tolerance" not in reading:
        return {}
    return {"engine.health_check_first_wait_seconds": reading.get("--rollout-health-check-first-wait") or 0.0}


def _save(view: View) -> Sequence[Pair]:
    return (("--save", (view.places.actor_dir,)),)


def _what(view: View) -> Sequence[Pair]:
    return (("--no-save-optim", ()),) if view.spec.checkpoint.what == "weights" else ()


_SPECULATION: Final = {
    "--sglang-speculative-algorithm": "algorithm",
    "--sglang-speculative-num-steps": "num_steps",
    "--sglang-speculative-eagle-topk": "topk",
    "--sglang-speculative-num-draft-tokens": "num_draft_tokens",
}


def _speculation(view: View) -> Sequence[Pair]:
    chosen = view.get(f"{S}.speculation")
    if chosen is None:
        return ()
    return tuple((flag, (text(getattr(chosen, name)),)) for flag, name in _SPECULATION.items())


def _read_speculation(reading: Reading) -> Updates:
    if not all(flag in reading for flag in _SPECULATION):
        return {}
    return {f"{S}.speculation.{name}": reading[flag] for flag, name in _SPECULATION.items()}


def _wandb(view: View) -> Sequence[Pair]:
    wandb = view.spec.tracking.wandb
    if wandb is None:
        return ()
    return (
        ("--use-wandb", ()),
        ("--wandb-project", (wandb.project,)),
        ("--wandb-group", (wandb.group or view.spec.name,)),
        *(() if wandb.random_suffix else (("--disable-wandb-random-suffix", ()),)),
        *((("--wandb-mode", (wandb.mode,)),) if wandb.mode != "online" or not view.from_script else ()),
    )


def _read_wandb(reading: Reading) -> Updates:
    if "--use-wandb" not in reading or "--wandb-project" not in reading:
        return {}
    found: dict[str, Any] = {
        "tracking.wandb.project": reading["--wandb-project"],
        "tracking.wandb.random_suffix": "--disable-wandb-random-suffix" not in reading,
    }
    for flag, name in (("--wandb-group", "group"), ("--wandb-mode", "mode")):
        if flag in reading:
            found[f"tracking.wandb.{name}"] = reading[flag]
    return found


def _tensorboard(view: View) -> Sequence[Pair]:
    tensorboard = view.spec.tracking.tensorboard
    if tensorboard is None:
        return ()
    return (
        ("--use-tensorboard", ()),
        ("--tb-project-name", (tensorboard.project or view.spec.name,)),
        ("--tb-experiment-name", (view.spec.name,)),
    )


def _read_tensorboard(reading: Reading) -> Updates:
    if "--use-tensorboard" not in reading:
        return {}
    return {"tracking.tensorboard": {"project": reading.get("--tb-project-name")}}


def _seeds(view: View) -> Sequence[Pair]:
    seed = (text(view.spec.seed),)
    return (("--seed", seed), ("--rollout-seed", seed))


ROWS: Final[tuple[Row, ...]] = (
    Row(("--seed", "--rollout-seed"), ("seed",), _seeds,
        lambda reading: {"seed": reading["--seed"]} if "--seed" in reading else {}),
    value("--num-rollout", "rollout.num_rollouts"),
    value("--rollout-batch-size", "rollout.batch_size"),
    value("--n-samples-per-prompt", "rollout.samples_per_prompt"),
    value("--over-sampling-batch-size", "rollout.over_sampling_batch_size"),
    value("--rollout-max-context-len", "rollout.context_tokens"),
    value("--rollout-max-response-len", "rollout.max_new_tokens_per_turn"),
    value("--rollout-temperature", "rollout.temperature"),
    value("--rollout-top-p", "rollout.top_p"),
    words("--rollout-stop-token-ids", "rollout.stop_token_ids"),
    Row(("--dynamic-sampling-filter-path",), ("rollout.dynamic_filter",), _filter, _read_filter),
    Row(("--use-rollout-routing-replay",), ("rollout.routing_replay",), _routing_replay,
        lambda reading: {"rollout.routing_replay": "--use-rollout-routing-replay" in reading}),
    Row(("--rollout-function-path",), ("engine.rollout_loop", f"{P}.rollout_function", "rollout.pipeline"),
        _rollout_function, _read_rollout_function),
    Row(("--custom-generate-function-path",), ("engine.rollout_loop", f"{P}.generate_function"), _generate_function,
        lambda reading: (
            {f"{P}.generate_function": reading["--custom-generate-function-path"]}
            if "--custom-generate-function-path" in reading else {}
        )),
    value("--prompt-data", f"{P}.path", _script),
    value("--input-key", f"{P}.input_key", _script),
    value("--label-key", f"{P}.label_key", _script),
    value("--metadata-key", f"{P}.metadata_key", _script),
    Row(("--multimodal-keys",), (f"{P}.multimodal_keys",), _multimodal,
        lambda reading: (
            {f"{P}.multimodal_keys": reading["--multimodal-keys"]} if "--multimodal-keys" in reading else {}
        ), _script),
    switch("--apply-chat-template", f"{P}.apply_chat_template", _script),
    switch("--rollout-shuffle", f"{P}.shuffle", _script),
    value("--rm-type", f"{P}.reward_model", _script),
    value("--custom-rm-path", f"{P}.reward_function", _script),
    value("--rm-url", f"{P}.reward_url", _script),
    value("--reward-key", f"{P}.reward_key", _script),
    Row(("--eval-interval", "--skip-eval-before-train"), (f"{E}.every_rollouts", f"{E}.before_training"), _cadence,
        _read_cadence, _has_evaluation),
    Row(("--eval-prompt-data",), (f"{E}.path", f"{E}.name"), _eval_set, _read_eval_set, _has_evaluation),
    value("--n-samples-per-eval-prompt", f"{E}.repeats"),
    value("--eval-max-response-len", f"{E}.max_new_tokens_per_turn"),
    Row(("--eval-temperature",), (f"{E}.temperature",), _eval_temperature,
        lambda reading: (
            {f"{E}.temperature": reading["--eval-temperature"]} if "--eval-temperature" in reading else {}
        ), _has_evaluation),
    Row(("--eval-top-p",), (f"{E}.top_p",), _eval_top_p,
        lambda reading: {f"{E}.top_p": reading["--eval-top-p"]} if "--eval-top-p" in reading else {}, _has_evaluation),
    value("--sglang-mem-fraction-static", "engine.mem_fraction_static"),
    value("--sglang-expert-parallel-size", f"{S}.expert_parallel"),
    value("--sglang-data-parallel-size", f"{S}.data_parallel"),
    switch("--sglang-enable-dp-attention", f"{S}.dp_attention"),
    switch("--sglang-enable-dp-lm-head", f"{S}.dp_lm_head"),
    value("--sglang-moe-dense-tp-size", f"{S}.moe_dense_tp"),
    value("--sglang-moe-a2a-backend", f"{S}.moe_a2a_backend"),
    value("--sglang-deepep-mode", f"{S}.deepep_mode"),
    value("--sglang-attention-backend", f"{S}.attention_backend"),
    words("--sglang-cuda-graph-bs", f"{S}.cuda_graph_batch_sizes"),
    value("--sglang-cuda-graph-max-bs", f"{S}.cuda_graph_max_batch_size"),
    value("--sglang-max-running-requests", f"{S}.max_running_requests"),
    value("--sglang-server-concurrency", f"{S}.server_concurrency"),
    value("--sglang-mamba-scheduler-strategy", f"{S}.mamba_scheduler"),
    Row(tuple(_SPECULATION), (f"{S}.speculation",), _speculation, _read_speculation),
    Row(("--use-fault-tolerance", "--rollout-health-check-interval", "--rollout-health-check-timeout",
         "--rollout-health-check-first-wait"), ("engine.health_check_first_wait_seconds",), _health, _read_health),
    value("--load", "checkpoint.load_dir"),
    Row(("--save",), ("checkpoint.actor_dir",), _save,
        lambda reading: {"checkpoint.actor_dir": reading["--save"]} if "--save" in reading else {}),
    value("--save-interval", "checkpoint.every_rollouts"),
    Row(("--no-save-optim",), ("checkpoint.what",), _what,
        lambda reading: {"checkpoint.what": "weights" if "--no-save-optim" in reading else "full"}),
    Row(("--use-wandb", "--wandb-project", "--wandb-group", "--disable-wandb-random-suffix", "--wandb-mode"),
        ("tracking.wandb",), _wandb, _read_wandb),
    Row(("--use-tensorboard", "--tb-project-name", "--tb-experiment-name"), ("tracking.tensorboard",), _tensorboard,
        _read_tensorboard),
)  # fmt: skip
