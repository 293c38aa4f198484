"""Bad and dangerous argument sets, each found for the right reason."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from t1cli.errors import BadInput
from t1cli.slime.arguments import changes, megatron, raises, silent
from t1cli.slime.arguments.check import check_arguments
from t1cli.slime.arguments.problem import Problem
from t1cli.slime.arguments.read import read
from t1cli.slime.arguments.table import known_versions, load_table

GOOD = (
    "--actor-num-nodes 1 --actor-num-gpus-per-node 8 --colocate --hf-checkpoint /m/hf --ref-load /m/dist "
    "--save /m/run --save-interval 20 --num-rollout 100 --rollout-batch-size 32 --n-samples-per-prompt 8 "
    "--global-batch-size 256 --use-dynamic-batch-size --max-tokens-per-gpu 9216 --tensor-model-parallel-size 2 "
    "--sequence-parallel --num-layers 36 --hidden-size 2560 --num-attention-heads 32 --group-query-attention "
    "--num-query-groups 8 --kv-channels 128 --advantage-estimator grpo --lr 1e-6 --rollout-num-gpus-per-engine 2"
)
APART = GOOD.replace("--colocate", "--rollout-num-gpus 8")
MOE = GOOD + " --num-experts 64 --expert-model-parallel-size 4 --expert-tensor-parallel-size 1"
FULLY_ASYNC = "+ --rollout-function-path slime.rollout.fully_async_rollout.generate_rollout_fully_async "
ENVIRONMENT = {"CUDA_DEVICE_MAX_CONNECTIONS": "1"}
PPO = APART.replace("grpo", "ppo") + " --megatron-config-path /m/roles.yaml"


def problems(text: str, **more: Any) -> tuple[Problem, ...]:
    arguments = read(
        shlex.split(text),
        load_table(more.get("version", "0.3.0")),
        environment=more.get("environment", ENVIRONMENT),
        asynchronous=more.get("asynchronous", False),
    )
    return check_arguments(arguments, more.get("roles"))


def roles(actor: dict[str, Any], critic: dict[str, Any]) -> dict[str, Any]:
    return {"megatron": [{"role": "actor", "overrides": actor}, {"role": "critic", "overrides": critic}]}


FINE_ROLES = roles({"save": "/m/run"}, {"save": "/m/critic", "lr": 1e-5})


@pytest.mark.parametrize(
    "text,more",
    [
        (GOOD, {}),
        (APART, {}),
        (MOE, {}),
        (PPO, {"roles": FINE_ROLES}),
        (GOOD, {"version": "0.3.1"}),
        (PPO + " --keep-old-actor --update-weights-interval 1", {"roles": FINE_ROLES, "asynchronous": True}),
        # What v0.3.1 no longer changes, derives from running engines, and cuts as it cuts tokens.
        (GOOD + " --rollout-num-gpus 4", {"version": "0.3.1"}),
        (GOOD + " --rollout-top-p 0.95", {"version": "0.3.1"}),
        (GOOD + " --rollout-top-p 0.95 --rollout-function-path t1cli.plugin.hooks.generate_rollout", {}),
        (APART.replace("--rollout-num-gpus 8", "--rollout-external-engine-addrs a:1 b:1"), {"version": "0.3.1"}),
        (
            GOOD + " --context-parallel-size 2 --multi-latent-attention --allgather-cp --use-rollout-routing-replay",
            {"version": "0.3.1"},
        ),
        (GOOD + " --ckpt-fully-parallel-load --use-persistent-ckpt-worker", {}),
        (GOOD + " --lr-warmup-iters 99", {}),
        (GOOD + " --custom-generate-function-path my.module.generate", {}),
    ],
)
def test_good_arguments_have_no_problem(text: str, more: dict[str, Any]) -> None:
    assert problems(text, **more) == ()


# (what is added to GOOD, or a whole set; words that the message must hold; ID; severity)
BAD: list[tuple[str, str, str, str]] = [
    # Unknown, misspelt, removed, unreadable, without effect.
    ("+ --rollout-batchsize 64", "drops unknown", "T-unknown", "error"),
    ("+ --use_kl_loss", "no argument of slime", "T-unknown", "error"),
    ("+ --eps-cli 0.2", "abbreviation", "T-unknown", "error"),
    ("+ --sglang-dp-attention", "no argument of slime", "T-unknown", "error"),
    ("+ --my-own-flag 3", "no argument of slime", "T-unknown", "error"),
    ("+ --sglang-tp-size 2", "slime sets --sglang-tp-size itself", "T-unknown", "error"),
    ("+ --sglang-enable-return-routed-experts", "itself", "T-unknown", "error"),
    ("+ --use-critic", "removed", "T-removed", "error"),
    ("+ --critic-lr 1e-5", "removed", "T-removed", "error"),
    ("+ --critic-save /m/critic", "removed", "T-removed", "error"),
    ("+ --critic-load /m/critic", "removed", "T-removed", "error"),
    ("+ --critic-num-nodes 1", "removed", "T-removed", "error"),
    ("+ --gamma one", "takes a number, found `one`", "T-value", "error"),
    ("+ --rollout-seed 1.5", "takes a whole number", "T-value", "error"),
    ("+ --loss-type ppo_loss", "takes one of", "T-value", "error"),
    ("+ --save-hf", "needs a value", "T-value", "error"),
    ("+ --balance-data yes", "belongs to no argument", "T-stray", "error"),
    ("64 " + GOOD, "before the first flag", "T-stray", "error"),
    ("+ --gamma 0.99 0.95", "belongs to no argument", "T-stray", "error"),
    ("+ --eps-clip-c 3.0", "no effect", "T-noop", "error"),
    ("+ --log-probs-max-tokens-per-gpu 8192", "no effect", "T-noop", "error"),
    ("+ --eval-min-new-tokens 4", "no effect", "T-noop", "error"),
    ("+ --eval-max-context-len 8192", "no effect", "T-noop", "error"),
    ("+ --http-proxy http://proxy", "no effect", "T-noop", "error"),
    ("+ --min-batch-collection-ratio 0.5", "no effect", "T-noop", "error"),
    ("+ --use-slime-router", "no effect", "T-noop", "error"),
    ("+ --wandb-key abc", "--wandb-key included", "T-secret", "error"),
    ("+ --lr 1e-5", "the last one wins", "T-twice", "warning"),
    # What slime raises on.
    (GOOD.replace("--ref-load /m/dist", "--load /m/x --use-kl-loss"), "reference", "T-kl", "error"),
    (GOOD.replace("--ref-load /m/dist", "--load /m/x --kl-coef 0.1"), "reference", "T-kl", "error"),
    ("+ --use-opd", "--opd-type", "T-opd", "error"),
    ("+ --use-opd --opd-type megatron", "teacher checkpoint", "T-opd", "error"),
    ("+ --use-opd --opd-type sglang --opd-teacher-load /t", "contradicts", "T-opd", "error"),
    ("+ --opd-teacher-load /t", "without --use-opd", "T-opd", "error"),
    ("+ --eval-interval 5", "without an evaluation set", "T-eval", "error"),
    ("+ --eval-interval 5 --eval-prompt-data a b c", "odd", "T-eval", "error"),
    ("+ --eval-interval 5 --eval-prompt-data a b --group-rm", "group-rm", "T-eval", "error"),
    (GOOD.replace("--save /m/run", ""), "without --save", "T-save", "error"),
    (GOOD.replace("--save-interval 20", ""), "Megatron asserts", "T-save", "error"),
    ("+ --use-kl-loss --kl-loss-coef 0.1 --kl-coef 0.1", "both non-zero", "T-kl", "error"),
    (GOOD.replace("grpo", "reinforce_plus_plus"), "--normalize-advantages", "T-norm", "error"),
    (GOOD.replace("grpo", "reinforce_plus_plus_baseline"), "--normalize-advantages", "T-norm", "error"),
    ("+ --use-rollout-logprobs --use-tis", "exclude each other", "T-tis", "error"),
    ("+ --get-mismatch-metrics", "--custom-tis-function-path", "T-tis", "error"),
    (GOOD.replace("--max-tokens-per-gpu 9216", ""), "without --max-tokens-per-gpu", "T-pack", "error"),
    ("+ --qkv-format bshd", "cannot pack", "T-pack", "error"),
    ("+ --debug-rollout-only --debug-train-only", "--debug-train-only", "T-debug", "error"),
    ("+ --debug-rollout-only --load-debug-rollout-data /d", "implies", "T-debug", "error"),
    ("+ --num-steps-per-rollout 2", "256 samples // 2 steps", "T-batch", "error"),
    (GOOD.replace("batch-size 256", "batch-size 512"), "never fills", "T-batch", "error"),
    ("+ --over-sampling-batch-size 16", "below --rollout-batch-size", "T-surplus", "error"),
    (GOOD.replace("--rollout-batch-size 32", ""), "required", "T-batch", "error"),
    (GOOD.replace("--num-rollout 100", ""), "neither", "T-length", "error"),
    (GOOD.replace("--num-rollout 100", "--num-epoch 2 --disable-rollout-global-dataset"), "global", "T-length",
     "error"),
    ("+ --enable-mtp-training", "--mtp-num-layers", "T-mtp", "error"),
    ("+ --rollout-max-context-len 4096 --rollout-max-prompt-len 4096", "no token", "T-prompt", "error"),
    ("+ --only-train-params-name-list a --freeze-params-name-list b", "freeze", "T-frozen", "error"),
    ("+ --update-weight-mode delta", "refused with --colocate", "T-delta", "error"),
    (APART + " --update-weight-mode delta --update-weight-transport disk", "directory", "T-delta", "error"),
    (GOOD.replace("--sequence-parallel", "--context-parallel-size 2 --allgather-cp"), "order", "T-cp",
     "error"),
    ("+ --decoder-last-pipeline-num-layers 4", "one pipeline stage", "T-stages", "error"),
    ("+ --sglang-dp-size 2", "--sglang-enable-dp-attention", "T-dp", "error"),
    ("+ --sglang-pipeline-parallel-size 3", "pipeline stages", "T-gpus", "error"),
    ("+ --sglang-config /s.yaml --prefill-num-servers 1", "prefill", "T-groups", "error"),
    ("+ --rollout-external --sglang-config /s.yaml", "start itself", "T-groups", "error"),
    ("+ --rollout-external --prefill-num-servers 1", "start itself", "T-groups", "error"),
    ("+ --disable-rollout-global-dataset", "assert the global dataset", "T-data", "error"),
    (
        "+ --disable-rollout-global-dataset --rollout-function-path my.rollout --eval-interval 5 "
        "--eval-prompt-data a b --eval-function-path slime.rollout.sglang_rollout.generate_rollout",
        "assert the global dataset", "T-data", "error",
    ),
    (APART.replace("per-engine 2", "per-engine 12").replace("gpus 8 ", "gpus 24 "), "whole nodes", "T-gpus", "error"),
    # What Megatron raises on.
    (GOOD.replace("-size 2 --seq", "-size 3 --seq"), "TP x PP x CP = 3", "T-world", "error"),
    (MOE.replace("expert-tensor-parallel-size 1", "expert-tensor-parallel-size 4"), "ETP", "T-world", "error"),
    ("+ --expert-model-parallel-size 2", "without experts", "T-experts", "error"),
    (MOE.replace("--num-experts 64", "--num-experts 66"), "66 experts over 4", "T-experts", "error"),
    (GOOD.replace("heads 32", "heads 33"), "33 heads over TP 2", "T-heads", "error"),
    (GOOD.replace("groups 8", "groups 3"), "3 key/value groups", "T-heads", "error"),
    (GOOD.replace("--kv-channels 128", "").replace("2560", "2561"), "--kv-channels", "T-heads", "error"),
    ("+ --pipeline-model-parallel-size 4 --num-layers 37", "37 layers do not split", "T-stages", "error"),
    ("+ --num-virtual-stages-per-pipeline-rank 2", "virtual", "T-stages", "error"),
    ("+ --recompute-granularity selective --recompute-method uniform", "selective", "T-recompute", "error"),
    ("+ --recompute-granularity full", "needs --recompute-method", "T-recompute", "error"),
    ("+ --recompute-method uniform", "recomputes nothing", "T-recompute", "error"),
    ("+ --min-lr 1e-5", "above --lr", "T-lr", "error"),
    ("+ --lr-warmup-iters 100", "schedule of 100", "T-lr", "error"),
    ("+ --lr-warmup-iters 10 --lr-decay-iters 10", "schedule of 10", "T-lr", "error"),
    (GOOD.replace("--sequence-parallel", "--num-experts 8"), "every MoE layer raises", "T-experts", "error"),
    ("+ --lr-warmup-fraction 0.1 --lr-warmup-iters 5", "--lr-warmup-iters", "T-lr", "error"),
    ("+ --optimizer-cpu-offload", "precision-aware", "T-offload", "error"),
    ("+ --fp16 --bf16", "turns bf16 off", "T-precision", "error"),
    ("+ --overlap-param-gather", "--overlap-grad-reduce", "T-overlap", "error"),
    # What slime validates nowhere.
    (GOOD.replace("--global-batch-size 256", ""), "= 4", "T-batch", "error"),
    (GOOD.replace("batch-size 256", "batch-size 96"), "64 of 256 samples", "T-drop", "warning"),
    (GOOD.replace("batch-size 256", "batch-size 2"), "leaves ranks empty", "T-ranks", "error"),
    (GOOD.replace("--use-dynamic-batch-size", "--micro-batch-size 3"), "not a multiple", "T-batch", "error"),
    (GOOD.replace("--colocate", ""), "TypeError", "T-gpus", "error"),
    (APART.replace("per-engine 2", "per-engine 3"), "multiple", "T-gpus", "error"),
    (GOOD.replace("--ref-load /m/dist", ""), "no weights", "T-load", "error"),
    (GOOD.replace("--hf-checkpoint /m/hf", ""), "tokenizer", "T-load", "error"),
    (PPO.replace(" --megatron-config-path /m/roles.yaml", ""), "the critic saves last", "C2", "error"),
    ("+ --use-wandb --wandb-project p", "--wandb-group", "T-wandb", "error"),
    ("+ --use-tensorboard", "ValueError", "T-board", "error"),
    ("+ --use-tensorboard --tb-project-name p", "timestamp", "T-board", "warning"),
    ("+ --use-routing-replay --use-rollout-logprobs", "empty list", "T-replay", "error"),
    ("+ --use-rollout-routing-replay --qkv-format bshd", "rows as for thd", "T-replay", "error"),
    ("+ --use-rollout-routing-replay --allgather-cp --context-parallel-size 2", "zig-zag", "T-replay", "error"),
    ("+ --use-fault-tolerance", "compiles its kernels", "T-health", "warning"),
    (GOOD.replace("-nodes 1 --actor-num-gpus-per-node 8", "-nodes 2 --actor-num-gpus-per-node 4"), "fewer than 8",
     "T-nodes", "warning"),
    (
        "+ --rollout-function-path slime.rollout.fully_async_rollout.generate_rollout_fully_async "
        "--eval-interval 5 --eval-prompt-data a b", "raises when", "T-eval", "error",
    ),
    (FULLY_ASYNC + "--dynamic-sampling-filter-path my.filter", "never reads --dynamic", "T-noop", "error"),
    (FULLY_ASYNC + "--rollout-sample-filter-path my.filter", "never reads --rollout-sample", "T-noop", "error"),
    (FULLY_ASYNC + "--over-sampling-batch-size 64", "never reads --over", "T-noop", "warning"),
    (FULLY_ASYNC + "--partial-rollout", "never reads --partial", "T-noop", "warning"),
    ("+ --num-critic-only-steps 2", "without a critic", "T-noop", "warning"),
    ("+ --value-clip 0.3", "without a critic", "T-noop", "warning"),
    ("+ --update-weights-interval 2", "after every rollout", "T-noop", "warning"),
    ("+ --kl-loss-coef 0.1", "without --use-kl-loss", "T-noop", "warning"),
    ("+ --tis-clip 3.0", "without --use-tis", "T-noop", "warning"),
    ("+ --rollout-health-check-first-wait 300", "without --use-fault-tolerance", "T-noop", "warning"),
    ("+ --custom-generate-function-path examples/my/generate.py:generate", "dots alone", "T-path", "error"),
    ("+ --custom-rm-path reward", "--custom-rm-path", "T-path", "error"),
    ("+ --expert-tensor-parallel-size 2", "without experts", "T-noop", "warning"),
    (GOOD.replace("--use-dynamic-batch-size", "--qkv-format bshd").replace("--sequence", "--context-parallel-size 2 "
     "--sequence"), "bshd", "T-noop", "warning"),
    (GOOD.replace("--save /m/run --save-interval 20", ""), "nothing of the run is kept", "T-unsaved", "notice"),
    ("+ --rollout-max-context-len 8192", "does not enforce", "T-wall", "notice"),
    ("+ --use-unbiased-kl", "without --use-kl-loss", "T-noop", "warning"),
    ("+ --tis-clip-low 0.1", "without --use-tis", "T-noop", "warning"),
    ("+ --opsm-delta 0.1", "without --use-opsm", "T-noop", "warning"),
    ("+ --mask-offpolicy-in-partial-rollout", "without --partial-rollout", "T-noop", "warning"),
    ("+ --rollout-health-check-interval 10", "without --use-fault-tolerance", "T-noop", "warning"),
    ("+ --rollout-health-check-timeout 10", "without --use-fault-tolerance", "T-noop", "warning"),
    ("+ --wandb-project p", "without --use-wandb", "T-noop", "warning"),
    ("+ --wandb-group g", "without --use-wandb", "T-noop", "warning"),
    ("+ --tb-project-name p", "without --use-tensorboard", "T-noop", "warning"),
    ("+ --mtp-loss-scaling-factor 0.3", "without --enable-mtp-training", "T-noop", "warning"),
    ("+ --overlap-cpu-optimizer-d2h-h2d", "without --optimizer-cpu-offload", "T-noop", "warning"),
    ("+ --rollout-external-engine-addrs a:1", "without --rollout-external", "T-noop", "warning"),
    # What slime changes.
    (PPO + " --no-offload-train", "forces offload_train", "T-change", "warning"),
    ("+ --offload --no-offload-rollout", "overrules", "T-change", "warning"),
    ("+ --max-position-embeddings 32768", "becomes 4096", "T-change", "warning"),
    (MOE + " --moe-token-dispatcher-type allgather", "alltoall", "T-change", "warning"),
    ("+ --rollout-num-gpus 4", "overwrites --rollout-num-gpus 4 with 8", "T-change", "warning"),
    (GOOD.replace("prompt 8", "prompt 1").replace("256", "32"), "its own baseline", "T-change", "warning"),
    ("+ --num-epoch 2", "ignored", "T-change", "warning"),
    ("+ --dump-details /d --save-debug-rollout-data /e", "replaces", "T-change", "warning"),
    (GOOD.replace("--tensor-model-parallel-size 2", ""), "is off", "T-change", "notice"),
    ("+ --debug-rollout-only", "rewrites", "T-change", "warning"),
    ("+ --eval-interval 5 --eval-prompt-data /aime.jsonl", "aime", "T-change", "warning"),
    ("+ --start-rollout-id 30", "rollout 0", "T-change", "warning"),
    ("+ --tokenizer-type HuggingFaceTokenizer", "--hf-checkpoint", "T-change", "warning"),
    ("+ --use-rollout-routing-replay --use-routing-replay", "implies", "T-change", "notice"),
    ("+ --custom-config-path /c.yaml", "after slime's own checks", "T-change", "notice"),
    ("+ --use-distributed-optimizer", "itself", "T-change", "notice"),
    ("+ --sglang-enable-metrics", "itself", "T-change", "notice"),
    ("+ --load-debug-rollout-data /d", "no engine starts", "T-change", "warning"),
    ("+ --sglang-enable-draft-weights-cpu-backup", "itself", "T-change", "notice"),
    ("+ --dist-ckpt-save-pre-mcore-014", "itself", "T-change", "notice"),
    ("+ --fp16", "turns bf16 off", "T-change", "warning"),
    (APART.replace("--rollout-num-gpus 8", "--rollout-num-gpus 16") + " --debug-rollout-only", "rewrites", "T-change",
     "warning"),
    ("+ --eps-clip 0.3", "becomes --eps-clip 0.3", "T-filled", "notice"),
    ("+ --reward-key score --eval-interval 5 --eval-prompt-data a b", "--reward-key score", "T-filled", "notice"),
    ("+ --rollout-function-path my.rollout --eval-interval 5 --eval-prompt-data a b",
     "--rollout-function-path my.rollout", "T-filled", "notice"),
    ("+ --dynamic-sampling-filter-path my.filter", "--rollout-batch-size 32", "T-filled", "notice"),
    ("+ --vocab-size 151936", "padded to 152064", "T-filled", "notice"),
]  # fmt: skip


@pytest.mark.parametrize("text,words,id_,severity", BAD, ids=[f"{row[2]}-{i}" for i, row in enumerate(BAD)])
def test_a_bad_set_is_found_for_the_right_reason(text: str, words: str, id_: str, severity: str) -> None:
    found = problems(GOOD + text[1:] if text.startswith("+") else text)
    matching = [p for p in found if p.id == id_ and p.severity == severity and words in p.message]
    assert matching, "\n".join(f"{p.id} {p.severity}: {p.message}" for p in found) or "nothing was found"
    assert all(p.fix and p.flag for p in matching)


@pytest.mark.parametrize(
    "flag,near",
    [
        ("--rollout-batchsize", "--rollout-batch-size"),
        ("--use_kl_loss", "--use-kl-loss"),
        ("--eps-cli", "--eps-clip"),
        ("--sglang-dp-attention", "--sglang-enable-dp-attention"),
        ("--collocate", "--colocate"),
        ("--n-sample-per-prompt", "--n-samples-per-prompt"),
    ],
)
def test_a_misspelt_flag_is_answered_with_the_near_name(flag: str, near: str) -> None:
    (problem,) = [p for p in problems(f"{GOOD} {flag}") if p.id == "T-unknown"]
    assert near in problem.fix


IN_COMPANY: list[tuple[str, dict[str, Any], str, str]] = [
    (APART + " --advantage-estimator ppo", {"asynchronous": True}, "C9", "one update newer"),
    (APART, {"asynchronous": True}, "C9", "one update newer"),
    (GOOD, {"asynchronous": True}, "T-async", "share GPUs"),
    (APART + " --keep-old-actor --update-weights-interval 3", {"asynchronous": True}, "C9", "share one snapshot"),
    (GOOD, {"environment": {"PYTHONPATH": "/x"}}, "T-env", "CUDA_DEVICE_MAX_CONNECTIONS=1"),
    (
        GOOD,
        {"environment": {**ENVIRONMENT, "PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}},
        "M9",
        "raises in every trainer",
    ),
    (PPO, {"roles": {"critic": {}}}, "T-roles", "top-level list"),
    (PPO, {"roles": {"megatron": [{"role": "critic"}, {"role": "critic"}]}}, "T-roles", "two entries"),
    (PPO, {"roles": {"megatron": [{"role": "policy"}]}}, "T-roles", "neither actor nor critic"),
    (PPO, {"roles": roles({}, {"learning_rate": 1})}, "T-roles", "no attribute"),
    (PPO, {"roles": roles({}, {"save": "/m/c", "tensor_model_parallel_size": 4})}, "T-roles", "common layout"),
    (PPO, {"roles": roles({}, {"save": "/m/c", "num_nodes": 4})}, "T-roles", "ignores"),
    (PPO, {"roles": roles({}, {"lr": 1e-5})}, "C2", "overwrites the actor"),
    (PPO, {"roles": roles({"save": "/m/a"}, {"save": "/m/a/"})}, "C2", "overwrites the actor"),
    (PPO, {"roles": roles({"save": "/m/a"}, {"save": "/m/a/critic"})}, "C2", "overwrites the actor"),
    (GOOD + " --release-train --advantage-estimator ppo", {"version": "0.3.1"}, "T-release", "a critic"),
    (GOOD + " --release-train --keep-old-actor", {"version": "0.3.1"}, "T-release", "--keep-old-actor"),
    (GOOD + " --release-train", {"version": "0.3.1"}, "T-release", "--update-weight-mode full"),
    (GOOD.replace("--save /m/run", "") + " --release-train", {"version": "0.3.1"}, "T-release", "needs --save"),
    (GOOD + " --release-train --offload-train", {"version": "0.3.1"}, "T-change", "whatever was given"),
    (GOOD + " --release-train", {"version": "0.3.1"}, "T-change", "after every rollout"),
    (
        GOOD.replace("--use-dynamic-batch-size", "") + " --balance-by-flops",
        {"version": "0.3.1"},
        "T-pack",
        "needs --use-dynamic-batch-size",
    ),
    (GOOD + " --balance-by-flops", {"version": "0.3.1"}, "T-change", "--balance-data on"),
    (GOOD + " --use-stateless-adam", {"version": "0.3.1"}, "T-adam", "--no-save-optim"),
    (GOOD.replace("grpo", "cispo"), {"version": "0.3.1"}, "T-clip", "keeps the lower bound"),
    (
        APART + " --rollout-external-engine-addrs a:1 --sglang-config /s.yaml",
        {"version": "0.3.1"},
        "T-groups",
        "start itself",
    ),
    (
        GOOD + " --rollout-top-p 0.95 --rollout-function-path t1cli.plugin.hooks.generate_rollout",
        {"version": "0.3.1"},
        "T-nucleus",
        "no such record",
    ),
    (GOOD + " --use-persistent-ckpt-worker", {"version": "0.3.1"}, "T-change", "itself"),
    (GOOD + " --ckpt-assume-constant-structure", {"version": "0.3.1"}, "T-change", "itself"),
    (GOOD + " --ckpt-fully-parallel-load", {"version": "0.3.1"}, "T-change", "itself"),
    (GOOD + " --update-weight-delta-dir /d", {"version": "0.3.1"}, "T-removed", "removed"),
    (GOOD + " --use-slime-router", {"version": "0.3.1"}, "T-removed", "removed"),
    (GOOD + " --critic-lr 1", {"version": "0.3.1"}, "T-removed", "removed"),
    (APART + " --update-weight-mode delta", {"version": "0.3.1"}, "T-delta", "over the disk alone"),
    (APART + " --update-weight-mode delta", {"version": "0.3.1"}, "T-delta", "rollout host"),
    (GOOD + " --update-weight-transport disk", {"version": "0.3.1"}, "T-delta", "directory"),
    (GOOD + " --balance-by-flops", {"version": "0.3.0"}, "T-unknown", "no argument of slime 0.3.0"),
]


@pytest.mark.parametrize("text,more,id_,words", IN_COMPANY)
def test_what_depends_on_entry_environment_roles_and_version(
    text: str, more: dict[str, Any], id_: str, words: str
) -> None:
    found = problems(text, **more)
    assert [p for p in found if p.id == id_ and words in p.message], found


def test_removed_flags_name_their_successor() -> None:
    found = problems(GOOD + " --update-weight-delta-dir /d", version="0.3.1")
    assert "--update-weight-disk-dir" in found[0].fix


def test_every_id_is_in_the_reference() -> None:
    page = (Path(__file__).parents[3] / "docs/reference/slime-arguments.md").read_text()
    ids = {rule.id for module in (changes, megatron, raises, silent) for rule in module.RULES}
    assert {id_ for id_ in ids if not re.search(rf"\b{id_}\b", page)} == set()


def test_every_rule_finds_something_here() -> None:
    """A rule that no row of this file makes fire is not known to work."""
    found = [p for text, *_ in BAD for p in problems(GOOD + text[1:] if text.startswith("+") else text)]
    found += [p for text, more, *_ in IN_COMPANY for p in problems(text, **more)]
    fired = {(p.id, p.severity, p.flag) for p in found}
    rules = [rule for module in (changes, megatron, raises, silent) for rule in module.RULES]
    assert {(rule.id, rule.severity, rule.flag) for rule in rules} - fired == set()


def test_errors_come_first() -> None:
    severities = [p.severity for p in problems(GOOD + " --sequence-parallel --value-clip 0.3 --oops")]
    assert severities == sorted(severities, key=("error", "warning", "notice").index)
    assert "error" in severities and "warning" in severities


def test_an_unknown_version_is_said() -> None:
    assert known_versions() == ("0.3.0", "0.3.1")
    with pytest.raises(BadInput, match=r"no argument table for slime 0\.4\.0"):
        load_table("0.4.0")
    assert load_table("v0.3.0") is load_table("v0.3.0")


def test_the_later_version_is_the_earlier_one_changed() -> None:
    old, new = load_table("0.3.0"), load_table("0.3.1")
    assert "cispo" in new.by_flag["--advantage-estimator"].choices
    assert "cispo" not in old.by_flag["--advantage-estimator"].choices
    assert old.find("--qkv-format") is not None and new.find("--qkv-format") is None
    assert new.find("--release-train") is not None and old.find("--release-train") is None
    assert old.find("--critic-lr") is None and new.find("--critic-lr") is None
    assert len(old.by_flag) > 1300 and old.about["slime"]
