"""A double of slime's train.py: parses like it, loads hooks like it, trains nothing, and saves like Megatron.

Knobs come from the environment: STUB_TRAIN_SECONDS, STUB_FAIL_AT, STUB_ACTOR_SAVES (0: none), STUB_SAMPLES (a
directory for what each rollout would train on).
"""

from __future__ import annotations

import argparse
import copy
import json
import logging
import os
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import ray
import torch.distributed as dist
import yaml
from slime.ray.rollout import flatten, train_data
from slime.utils.distributed_utils import init_gloo_group
from slime.utils.misc import load_function
from slime.utils.reloadable_process_group import monkey_patch_torch_dist

INTEGERS = ("num-rollout", "rollout-batch-size", "n-samples-per-prompt", "global-batch-size", "save-interval")
PATHS = ("rollout-function-path", "eval-function-path", "data-source-path", "custom-megatron-init-path")
OPTIONAL = (
    "advantage-estimator",
    "save",
    "load",
    "custom-config-path",
    "megatron-config-path",
    "custom-reward-post-process-path",
    "rollout-data-postprocess-path",
    "custom-megatron-before-log-prob-hook-path",
    "eval-interval",
    "ckpt-step",
    "reward-key",
    "custom-tis-function-path",
    "custom-generate-function-path",
    "dynamic-sampling-filter-path",
    *PATHS,
)
SWITCHES = (
    "get-mismatch-metrics",
    "no-save-optim",
    "no-load-optim",
    "override-opt_param-scheduler",
    "keep-old-actor",
    "skip-eval-before-train",
    "partial-rollout",
)
Roles = tuple[Any, Any, Any]
"""Rollout manager, actor, and critic or None."""


def parse_args() -> argparse.Namespace:
    """Unknown flags are dropped without a word and abbreviations are off, as in slime."""
    parser = argparse.ArgumentParser(allow_abbrev=False)
    for name in INTEGERS:
        parser.add_argument(f"--{name}", type=int)
    for name in OPTIONAL:
        parser.add_argument(f"--{name}")
    for name in SWITCHES:
        parser.add_argument(f"--{name}", action="store_true", dest=name.replace("-", "_"))
    parser.add_argument("--num-critic-only-steps", type=int, default=0)
    parser.add_argument("--lr-decay-iters", type=int)
    parser.add_argument("--data-pad-size-multiplier", type=int, default=128)
    parser.add_argument("--tis-clip", type=float, default=2.0)
    parser.add_argument("--tis-clip-low", type=float, default=0.0)
    parser.add_argument("--over-sampling-batch-size", type=int)
    parser.add_argument("--sglang-server-concurrency", type=int, default=512)
    parser.add_argument("--update-weights-interval", type=int, default=1)
    args, dropped = parser.parse_known_args()
    args.over_sampling_batch_size = args.over_sampling_batch_size or args.rollout_batch_size
    args.rollout_global_dataset = True
    print("dropped:", [word for word in dropped if word.startswith("--")], flush=True)
    args.use_critic = args.advantage_estimator == "ppo"
    args.start_rollout_id = None
    args.finetune = False
    if not (args.load and (Path(args.load) / "latest_checkpointed_iteration.txt").exists()):
        args.load, args.start_rollout_id = None, 0
        args.no_load_optim, args.finetune = True, True
    if args.custom_config_path:
        for key, value in yaml.safe_load(Path(args.custom_config_path).read_text()).items():
            setattr(args, key, value)
    return args


def for_role(args: argparse.Namespace, role: str) -> argparse.Namespace:
    mine = copy.deepcopy(args)
    if args.megatron_config_path:
        for entry in yaml.safe_load(Path(args.megatron_config_path).read_text())["megatron"]:
            if entry["role"] == role:
                vars(mine).update(entry.get("overrides", {}))
    return mine


@ray.remote(num_cpus=0)
class RolloutManager:
    """One engine behind HTTP, the data source, and the rollout functions."""

    def __init__(self, args: argparse.Namespace) -> None:
        logging.basicConfig(
            level=logging.INFO, format="[%(asctime)s] %(filename)s:%(lineno)d - %(message)s", force=True
        )
        self.args, self.stack, self.version = args, ExitStack(), 0
        self.source = load_function(args.data_source_path)(args)
        self.rollout = load_function(args.rollout_function_path)
        self.evaluation = load_function(args.eval_function_path or args.rollout_function_path)
        self._serve()

    def push(self) -> None:
        """The next weight version, as slime gives it to its engines: what is being sampled is aborted."""
        self.version += 1
        weights = {"model_path": os.environ["STUB_WEIGHTS"], "weight_version": str(self.version)}
        self._engine("pause_generation", {})
        self._engine("update_weights_from_disk", weights)
        self._engine("continue_generation", {})

    def generate(self, rollout_id: int) -> dict[str, Any]:
        started = time.time()
        output = self.rollout(self.args, rollout_id, self.source, evaluation=False)
        samples = flatten(output.samples, self.args.n_samples_per_prompt)
        raw = [float(sample.get_reward_value(self.args)) for sample in samples]
        shaped = raw
        if self.args.custom_reward_post_process_path:
            raw, shaped = load_function(self.args.custom_reward_post_process_path)(self.args, samples)
        data = train_data(samples, raw, shaped, replay=samples[0].rollout_routed_experts is not None)
        if directory := os.environ.get("STUB_SAMPLES"):
            write_samples(Path(directory) / f"rollout_{rollout_id}.json", samples)
        log = {**(output.metrics or {}), "perf/rollout_time": time.time() - started}
        logging.info(f"perf {rollout_id}: {log}")
        return data

    def eval(self, rollout_id: int) -> None:
        output = self.evaluation(self.args, rollout_id, self.source, evaluation=True)
        log = {f"eval/{name}": sum(d["rewards"]) / len(d["rewards"]) for name, d in output.data.items()}
        logging.info(f"eval {rollout_id}: {log | (output.metrics or {})}")

    def save(self, rollout_id: int) -> None:
        self.source.save(rollout_id)

    def load(self, rollout_id: int) -> None:
        self.source.load(rollout_id)

    def dispose(self) -> None:
        self.stack.close()

    def _engine(self, path: str, body: dict[str, Any]) -> None:
        url = f"http://{self.args.sglang_router_ip}:{self.args.sglang_router_port}/{path}"
        httpx.post(url, json=body, timeout=600, trust_env=False).raise_for_status()

    def _serve(self) -> None:
        from t1cli.embedded.server_process import inference_server

        slots = str(self.args.rollout_batch_size * self.args.n_samples_per_prompt)
        weights = Path(os.environ["STUB_WEIGHTS"])
        server = self.stack.enter_context(inference_server(weights, "--max-batch", slots))
        host, _, port = server.url.removeprefix("http://").partition(":")
        self.args.sglang_router_ip, self.args.sglang_router_port = host, int(port)


@ray.remote(num_cpus=0)
class Trainer:
    """One role. A save is written like Megatron's: files, then the tracker, then a line."""

    def __init__(self, args: argparse.Namespace, role: str) -> None:
        logging.basicConfig(
            level=logging.INFO, format="[%(asctime)s] %(filename)s:%(lineno)d - %(message)s", force=True
        )
        self.args, self.role = args, role
        # slime's order: wrap torch, make the groups, then Megatron's own start with the init hook.
        monkey_patch_torch_dist()
        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        init_gloo_group()
        if args.custom_megatron_init_path:
            load_function(args.custom_megatron_init_path)(args)
        # Megatron's own assertion on the length of a schedule.
        rollouts = args.num_rollout if args.lr_decay_iters is None else args.lr_decay_iters
        self.lr_decay_steps = rollouts * args.global_batch_size
        assert self.lr_decay_steps > 0

    def start(self) -> int:
        """The rollout to begin with, told from the checkpoint."""
        directory = getattr(self.args, "load", None)
        if not directory:
            return 0
        step = getattr(self.args, "ckpt_step", None)
        if step is None:
            step = (Path(directory) / "latest_checkpointed_iteration.txt").read_text()
        assert (Path(directory) / f"iter_{int(step):07d}" / "weights.bin").exists()
        if not self.args.no_load_optim and not self.args.finetune:
            # Megatron's: what was not saved does not load, and another schedule is refused.
            saved = json.loads((Path(directory) / f"iter_{int(step):07d}" / "optimizer.json").read_text())
            assert self.args.override_opt_param_scheduler or saved["lr_decay_steps"] == self.lr_decay_steps
        print(f"{self.role} loaded {directory} at {int(step)}", flush=True)
        return int(step) + 1

    def train(self, rollout_id: int, data: dict[str, Any]) -> None:
        if rollout_id == int(os.environ.get("STUB_FAIL_AT", "-1")) and not self.args.load:
            raise RuntimeError("the stub was told to fail here")
        time.sleep(float(os.environ.get("STUB_TRAIN_SECONDS", "0")))
        if self.role == "critic":
            logging.info(f"critic-step {rollout_id}: {{'train/critic-value_loss': 0.5}}")
            return
        if self.args.custom_megatron_before_log_prob_hook_path:
            load_function(self.args.custom_megatron_before_log_prob_hook_path)(self.args, None, "")
        if self.args.rollout_data_postprocess_path:
            import torch

            lengths = data["response_lengths"]
            returns = [torch.full((n,), reward) for n, reward in zip(lengths, data["rewards"], strict=True)]
            rows = {"values": [0.5 * r for r in returns], "returns": returns}
            rows["loss_masks"] = [torch.tensor(mask) for mask in data["loss_masks"]]
            load_function(self.args.rollout_data_postprocess_path)(self.args, rollout_id, rows)
        mean = sum(data["raw_reward"]) / len(data["raw_reward"])
        logging.info(f"rollout {rollout_id}: {{'rollout/raw_reward': {mean}, 'rollout/truncated': 0.0}}")
        step = {"train/grad_norm": 1.5} | mismatch(self.args, data)
        logging.info(f"step {rollout_id}: {{'train/loss': nan, {str(step)[1:-1]}}}")

    def save(self, rollout_id: int) -> None:
        if self.role == "actor" and os.environ.get("STUB_ACTOR_SAVES") == "0":
            return
        directory = Path(self.args.save)
        place = directory / f"iter_{rollout_id:07d}"
        place.mkdir(parents=True, exist_ok=True)
        (place / "weights.bin").write_bytes(f"{self.role} {rollout_id}".encode() * 100)
        if not self.args.no_save_optim:
            (place / "optimizer.json").write_text(json.dumps({"lr_decay_steps": self.lr_decay_steps}))
        (directory / "latest_checkpointed_iteration.txt").write_text(str(rollout_id))
        print(f"  successfully saved checkpoint from iteration {rollout_id:7d} to {directory} [ t 1/1 ]", flush=True)


def write_samples(path: Path, samples: list[Any]) -> None:
    """What slime would put into its training data, for a test to compare."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fields = ("group_index", "group_id", "tokens", "response_length", "loss_mask", "rollout_log_probs", "reward")
    rows = [{name: getattr(sample, name) for name in fields} for sample in samples]
    for row, sample in zip(rows, samples, strict=True):
        row["routes"] = sample.rollout_routed_experts.tolist()
        row["weight_versions"] = [int(version) for version in sample.weight_versions]
    path.write_text(json.dumps(rows))


def mismatch(args: argparse.Namespace, data: dict[str, Any]) -> dict[str, float]:
    """What slime's policy loss reports of the correction; the trainer's log-probs stand a fixed step beside."""
    import torch

    if not args.get_mismatch_metrics:
        return {}
    sampled = [torch.tensor(one) for one in data["rollout_log_probs"]]
    masks = [torch.tensor(mask) for mask in data["loss_masks"]]
    loss = torch.arange(sum(map(len, sampled)), dtype=torch.float32)
    changed, kept, found = load_function(args.custom_tis_function_path)(
        args=args,
        pg_loss=loss.clone(),
        train_log_probs=[one + 1.0 for one in sampled],
        rollout_log_probs=sampled,
        loss_masks=masks,
        total_lengths=data["total_lengths"],
        response_lengths=data["response_lengths"],
    )
    assert torch.equal(changed, loss) and all(torch.equal(a, b) for a, b in zip(kept, masks, strict=True))
    assert all(one.shape == loss.shape and not one.requires_grad for one in found.values())
    weight = torch.cat(masks).float()
    return {f"train/{name}": float((one * weight).sum() / weight.sum()) for name, one in found.items()}


def step(args: argparse.Namespace, roles: Roles, rollout_id: int, data: dict[str, Any]) -> None:
    """Train and save, the critic first."""
    manager, actor, critic = roles
    actor_trains = critic is None or rollout_id >= args.num_critic_only_steps
    if critic is not None:
        ray.get(critic.train.remote(rollout_id, data))
    if actor_trains:
        ray.get(actor.train.remote(rollout_id, data))
    if (rollout_id + 1) % args.save_interval == 0 or rollout_id == args.num_rollout - 1:
        if actor_trains:
            ray.get(actor.save.remote(rollout_id))
        if critic is not None:
            ray.get(critic.save.remote(rollout_id))
        ray.get(manager.save.remote(rollout_id))


def start(args: argparse.Namespace) -> tuple[Roles, int]:
    """The processes, and the rollout to begin with."""
    manager = RolloutManager.remote(args)
    critic = Trainer.remote(for_role(args, "critic"), "critic") if args.use_critic else None
    actor = Trainer.remote(for_role(args, "actor"), "actor")
    starts = ray.get([role.start.remote() for role in (actor, critic) if role is not None])
    first = args.start_rollout_id if args.start_rollout_id is not None else starts[-1]
    ray.get(manager.load.remote(first - 1))
    ray.get(manager.push.remote())
    return (manager, actor, critic), first


def train(args: argparse.Namespace) -> None:
    roles, first = start(args)
    manager = roles[0]
    if args.num_rollout == 0 and args.eval_interval is not None:
        ray.get(manager.eval.remote(0))
    for rollout_id in range(first, args.num_rollout):
        if args.eval_interval is not None and rollout_id == 0 and not args.skip_eval_before_train:
            ray.get(manager.eval.remote(0))
        data = ray.get(manager.generate.remote(rollout_id))
        step(args, roles, rollout_id, data)
        ray.get(manager.push.remote())
        if args.eval_interval and (rollout_id + 1) % int(args.eval_interval) == 0:
            ray.get(manager.eval.remote(rollout_id))
    ray.get(manager.dispose.remote())


if __name__ == "__main__":
    arguments = parse_args()
    ray.init(log_to_driver=True)
    train(arguments)
