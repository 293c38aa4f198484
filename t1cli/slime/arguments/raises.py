"""What slime's own validation raises on (slime/utils/arguments.py: slime_validate_args, and its neighbours)."""

from __future__ import annotations

from typing import Final

from t1cli.slime.arguments.problem import Rule
from t1cli.slime.arguments.read import Arguments

FULLY_ASYNC_FUNCTION: Final = "slime.rollout.fully_async_rollout.generate_rollout_fully_async"
OWN_FULLY_ASYNC_FUNCTION: Final = "t1cli.plugin.hooks.generate_rollout_fully_async"
OWN_STOCK_FUNCTION: Final = "t1cli.plugin.hooks.generate_rollout_by_slime"
"""t1's, which run slime's loops."""
STOCK_FUNCTION: Final = "slime.rollout.sglang_rollout.generate_rollout"
ON_GLOBAL_DATA: Final = frozenset(
    {FULLY_ASYNC_FUNCTION, STOCK_FUNCTION, OWN_STOCK_FUNCTION, "slime.rollout.sft_rollout.generate_rollout"}
)
"""Rollout functions in which slime asserts the global dataset."""


def samples_per_rollout(a: Arguments) -> int:
    """Samples of one rollout; 0 when the batch is not given."""
    return a.whole("rollout_batch_size") * a.whole("n_samples_per_prompt", 1)


def trains_only(a: Arguments) -> bool:
    """Whether no engine starts."""
    return a.on("debug_train_only") or a.has("load_debug_rollout_data")


def _evaluates(a: Arguments) -> bool:
    return a.value("eval_interval") is not None


def _uses_reference(a: Arguments) -> bool:
    return a.number("kl_coef") != 0 or a.on("use_kl_loss")


def _wrong_global_batch(a: Arguments) -> bool:
    steps = a.whole("num_steps_per_rollout")
    given = a.value("global_batch_size")
    return steps > 0 and given is not None and given != samples_per_rollout(a) // steps


def _prompt_too_long(a: Arguments) -> bool:
    wall, prompt = a.value("rollout_max_context_len"), a.value("rollout_max_prompt_len")
    return isinstance(wall, int) and isinstance(prompt, int) and prompt > wall - 1


def _odd_eval_pairs(a: Arguments) -> bool:
    words = a.many("eval_prompt_data")
    return len(words) > 1 and len(words) % 2 == 1


def _releases(a: Arguments) -> bool:
    return a.on("release_train")


def external_engines(a: Arguments) -> bool:
    """Whether engines run already: v0.3.0 has a switch for it, later ones go by the list of addresses."""
    if a.table.by_dest("rollout_external") is not None:
        return a.on("rollout_external")
    return bool(a.many("rollout_external_engine_addrs"))


def evaluation_function(a: Arguments) -> str:
    """What evaluates; empty without evaluation."""
    return (a.text("eval_function_path") or a.text("rollout_function_path")) if _evaluates(a) else ""


def _without_its_data(a: Arguments) -> bool:
    functions = {a.text("rollout_function_path"), evaluation_function(a)}
    return a.has("rollout_global_dataset") and not a.on("rollout_global_dataset") and bool(functions & ON_GLOBAL_DATA)


def _engine_cuts_a_node(a: Arguments) -> bool:
    per_engine, per_node = a.whole("rollout_num_gpus_per_engine", 1), max(1, a.whole("num_gpus_per_node", 8))
    return not trains_only(a) and per_engine > per_node and per_engine % per_node != 0


RULES: Final[tuple[Rule, ...]] = (
    Rule(
        "T-kl", "error", "--ref-load",
        lambda a: _uses_reference(a) and not a.text("ref_load"),
        "a KL penalty or KL loss needs the reference model, but --ref-load is not given (TypeError at start)",
        "give --ref-load, or leave --use-kl-loss and --kl-coef out",
    ),
    Rule(
        "T-opd", "error", "--opd-type",
        lambda a: a.on("use_opd") and not a.text("opd_type"),
        "--use-opd without --opd-type", "--opd-type sglang or megatron",
    ),
    Rule(
        "T-opd", "error", "--opd-teacher-load",
        lambda a: a.on("use_opd") and a.text("opd_type") == "megatron" and not a.text("opd_teacher_load"),
        "--opd-type megatron without a teacher checkpoint", "give --opd-teacher-load",
    ),
    Rule(
        "T-opd", "error", "--opd-teacher-load",
        lambda a: a.on("use_opd") and a.text("opd_type") == "sglang" and bool(a.text("opd_teacher_load")),
        "--opd-type sglang takes its teacher from a server; --opd-teacher-load contradicts it",
        "leave --opd-teacher-load out",
    ),
    Rule(
        "T-opd", "error", "--opd-teacher-load",
        lambda a: not a.on("use_opd") and bool(a.text("opd_teacher_load")),
        "--opd-teacher-load without --use-opd", "add --use-opd, or leave the teacher out",
    ),
    Rule(
        "T-eval", "error", "--eval-interval",
        lambda a: _evaluates(a) and not a.many("eval_prompt_data") and not a.text("eval_config"),
        "--eval-interval without an evaluation set", "--eval-prompt-data NAME PATH, or --eval-config FILE",
    ),
    Rule(
        "T-eval", "error", "--eval-prompt-data",
        _odd_eval_pairs,
        "--eval-prompt-data takes pairs of name and path; the number of words is odd (ValueError)",
        "one name before each path",
    ),
    Rule(
        "T-eval", "error", "--group-rm",
        lambda a: _evaluates(a) and a.on("group_rm"),
        "evaluation does not work with --group-rm (AssertionError at the first evaluation)",
        "leave --group-rm or --eval-interval out",
    ),
    Rule(
        "T-save", "error", "--save",
        lambda a: a.value("save_interval") is not None and not a.text("save"),
        "--save-interval without --save; role overrides do not count", "give --save",
    ),
    Rule(
        "T-save", "error", "--save-interval",
        lambda a: bool(a.text("save")) and a.value("save_interval") is None and not _releases(a),
        "--save without --save-interval (Megatron asserts it)", "give --save-interval",
    ),
    Rule(
        "T-kl", "error", "--kl-coef",
        lambda a: a.number("kl_coef") != 0 and a.number("kl_loss_coef") != 0,
        "--kl-coef and --kl-loss-coef are both non-zero", "keep one of them",
    ),
    Rule(
        "T-norm", "error", "--normalize-advantages",
        lambda a: a.text("advantage_estimator").startswith("reinforce_plus_plus") and not a.on("normalize_advantages"),
        "REINFORCE++ needs --normalize-advantages", "add --normalize-advantages",
    ),
    Rule(
        "T-tis", "error", "--use-tis",
        lambda a: a.on("use_rollout_logprobs") and a.on("use_tis"),
        "--use-rollout-logprobs and --use-tis exclude each other", "keep one of them",
    ),
    Rule(
        "T-tis", "error", "--get-mismatch-metrics",
        lambda a: a.on("get_mismatch_metrics") and not a.text("custom_tis_function_path"),
        "--get-mismatch-metrics needs --custom-tis-function-path", "name the function that computes them",
    ),
    Rule(
        "T-pack", "error", "--max-tokens-per-gpu",
        lambda a: a.on("use_dynamic_batch_size") and a.value("max_tokens_per_gpu") is None,
        "--use-dynamic-batch-size without --max-tokens-per-gpu", "give --max-tokens-per-gpu",
    ),
    Rule(
        "T-pack", "error", "--qkv-format",
        lambda a: a.text("qkv_format") == "bshd" and a.on("use_dynamic_batch_size"),
        "--qkv-format bshd cannot pack, so it excludes --use-dynamic-batch-size", "--micro-batch-size instead",
    ),
    Rule(
        "T-pack", "error", "--balance-by-flops",
        lambda a: a.on("balance_by_flops") and not a.on("use_dynamic_batch_size"),
        "--balance-by-flops needs --use-dynamic-batch-size", "add --use-dynamic-batch-size and --max-tokens-per-gpu",
    ),
    Rule(
        "T-adam", "error", "--use-stateless-adam",
        lambda a: a.on("use_stateless_adam") and (a.text("optimizer") != "adam" or not a.on("no_save_optim")),
        "--use-stateless-adam needs --optimizer adam and --no-save-optim: it keeps no moments that could be saved",
        "add --no-save-optim",
    ),
    Rule(
        "T-debug", "error", "--debug-rollout-only",
        lambda a: a.on("debug_rollout_only") and trains_only(a),
        "--debug-rollout-only with --debug-train-only (which --load-debug-rollout-data implies)", "keep one of them",
    ),
    Rule(
        "T-batch", "error", "--global-batch-size",
        _wrong_global_batch,
        lambda a: f"--global-batch-size {a.value('global_batch_size')} is not {samples_per_rollout(a)} samples // "
        f"{a.value('num_steps_per_rollout')} steps",
        "give one of --global-batch-size and --num-steps-per-rollout",
    ),
    Rule(
        "T-batch", "error", "--global-batch-size",
        lambda a: 0 < samples_per_rollout(a) < a.whole("global_batch_size"),
        lambda a: f"a rollout of {samples_per_rollout(a)} samples never fills a step of {a.value('global_batch_size')} "
        "(AssertionError after the first rollout)",
        "a global batch of at most the rollout's samples",
    ),
    Rule(
        "T-surplus", "error", "--over-sampling-batch-size",
        lambda a: 0 < a.whole("over_sampling_batch_size") < a.whole("rollout_batch_size"),
        lambda a: f"--over-sampling-batch-size {a.value('over_sampling_batch_size')} is below --rollout-batch-size "
        f"{a.value('rollout_batch_size')}",
        "at least the rollout batch",
    ),
    Rule(
        "T-batch", "error", "--rollout-batch-size",
        lambda a: a.whole("rollout_batch_size") <= 0,
        "--rollout-batch-size is required", "give --rollout-batch-size",
    ),
    Rule(
        "T-length", "error", "--num-rollout",
        lambda a: a.value("num_rollout") is None and a.value("num_epoch") is None,
        "neither --num-rollout nor --num-epoch", "give --num-rollout",
    ),
    Rule(
        "T-length", "error", "--num-epoch",
        lambda a: a.value("num_rollout") is None
        and a.value("num_epoch") is not None
        and a.has("rollout_global_dataset")
        and not a.on("rollout_global_dataset"),
        "--num-epoch needs the global dataset that --disable-rollout-global-dataset turns off", "give --num-rollout",
    ),
    Rule(
        "T-data", "error", "--disable-rollout-global-dataset",
        _without_its_data,
        "slime's own rollout and evaluation assert the global dataset that --disable-rollout-global-dataset turns off",
        "leave it out, or name a rollout function with data of its own",
    ),
    Rule(
        "T-mtp", "error", "--mtp-num-layers",
        lambda a: a.on("enable_mtp_training") and not a.whole("mtp_num_layers"),
        "--enable-mtp-training without --mtp-num-layers", "give --mtp-num-layers",
    ),
    Rule(
        "T-prompt", "error", "--rollout-max-prompt-len",
        _prompt_too_long,
        "--rollout-max-prompt-len leaves no token to generate below --rollout-max-context-len",
        "at most the context length minus 1",
    ),
    Rule(
        "T-frozen", "error", "--freeze-params-name-list",
        lambda a: bool(a.value("only_train_params_name_list")) and bool(a.value("freeze_params_name_list")),
        "--only-train-params-name-list with --freeze-params-name-list", "keep one of them",
    ),
    Rule(
        "T-delta", "error", "--update-weight-mode",
        lambda a: a.text("update_weight_mode") == "delta" and a.on("colocate"),
        "delta weight updates are refused with --colocate, which shares handles instead of bytes",
        "--update-weight-mode full",
    ),
    Rule(
        "T-delta", "error", "--update-weight-transport",
        lambda a: a.text("update_weight_transport") == "disk"
        and not a.text("update_weight_delta_dir")
        and not a.text("update_weight_disk_dir")
        and (a.text("update_weight_mode") == "delta" or a.table.find("--update-weight-disk-dir") is not None),
        "--update-weight-transport disk without a directory that trainers and engines share",
        lambda a: "give "
        + ("--update-weight-disk-dir" if a.table.find("--update-weight-disk-dir") else "--update-weight-delta-dir"),
    ),
    Rule(
        "T-delta", "error", "--update-weight-transport",
        lambda a: a.text("update_weight_mode") == "delta"
        and a.table.find("--update-weight-disk-dir") is not None
        and a.text("update_weight_transport") != "disk",
        "delta weight updates travel over the disk alone at this version", "--update-weight-transport disk",
    ),
    Rule(
        "T-delta", "error", "--update-weight-local-checkpoint-dir",
        lambda a: a.text("update_weight_mode") == "delta"
        and a.table.find("--update-weight-local-checkpoint-dir") is not None
        and not a.text("update_weight_local_checkpoint_dir"),
        "delta weight updates need a directory on each rollout host", "give --update-weight-local-checkpoint-dir",
    ),
    Rule(
        "T-cp", "error", "--allgather-cp",
        lambda a: a.on("allgather_cp")
        and a.whole("context_parallel_size", 1) > 1
        and not a.on("multi_latent_attention"),
        "--allgather-cp with context parallelism is for DeepSeek sparse attention alone: it scrambles token order here",
        "leave --allgather-cp out",
    ),
    Rule(
        "T-dp", "error", "--sglang-enable-dp-attention",
        lambda a: not trains_only(a)
        and a.whole("sglang_data_parallel_size", 1) > 1
        and not a.on("sglang_enable_dp_attention"),
        "--sglang-dp-size above 1 without --sglang-enable-dp-attention", "add --sglang-enable-dp-attention",
    ),
    Rule(
        "T-gpus", "error", "--rollout-num-gpus-per-engine",
        lambda a: a.whole("rollout_num_gpus_per_engine", 1) % max(1, a.whole("sglang_pipeline_parallel_size", 1)) != 0,
        "the engine's GPUs are not a multiple of its pipeline stages", "change --rollout-num-gpus-per-engine",
    ),
    Rule(
        "T-groups", "error", "--sglang-config",
        lambda a: bool(a.text("sglang_config")) and a.value("prefill_num_servers") is not None,
        "--sglang-config with --prefill-num-servers", "put the prefill group into the file",
    ),
    Rule(
        "T-groups", "error", "--rollout-external-engine-addrs",
        lambda a: external_engines(a)
        and (bool(a.text("sglang_config")) or a.value("prefill_num_servers") is not None),
        "external engines beside engines that slime should start itself", "leave one of them out",
    ),
    Rule(
        "T-gpus", "error", "--rollout-num-gpus-per-engine",
        _engine_cuts_a_node,
        lambda a: f"an engine of {a.value('rollout_num_gpus_per_engine')} GPUs is not made of whole nodes of "
        f"{a.value('num_gpus_per_node')} (--num-gpus-per-node): its placement does not fit",
        "a multiple of the GPUs per node",
    ),
    Rule(
        "T-async", "error", "--colocate",
        lambda a: a.asynchronous and a.on("colocate"),
        "train_async.py asserts that trainers and engines do not share GPUs", "train.py, or GPUs of their own",
    ),
    Rule(
        "T-release", "error", "--release-train",
        lambda a: _releases(a) and a.text("advantage_estimator") == "ppo",
        "--release-train refuses a critic", "leave --release-train out",
    ),
    Rule(
        "T-release", "error", "--release-train",
        lambda a: _releases(a) and a.on("keep_old_actor"),
        "--release-train refuses --keep-old-actor", "leave one of them out",
    ),
    Rule(
        "T-release", "error", "--release-train",
        lambda a: _releases(a) and not a.text("save"),
        "--release-train needs --save: the next trainer reloads from it", "give --save",
    ),
    Rule(
        "T-release", "error", "--release-train",
        lambda a: _releases(a)
        and (a.text("update_weight_mode"), a.text("update_weight_transport")) != ("full", "disk"),
        "--release-train needs --update-weight-mode full and --update-weight-transport disk", "give both",
    ),
)  # fmt: skip
"""One row per condition, in the order slime tests them. Paths on disk are not looked at: see preflight."""
