"""A double of slime's train_async.py: one rollout ahead, and never an evaluation before the first step."""

from __future__ import annotations

import argparse

import ray
from train import parse_args, start, step


def train(args: argparse.Namespace) -> None:
    roles, first = start(args)
    manager = roles[0]
    data = ray.get(manager.generate.remote(first))
    for rollout_id in range(first, args.num_rollout):
        more = rollout_id + 1 < args.num_rollout
        ahead = manager.generate.remote(rollout_id + 1) if more else None
        step(args, roles, rollout_id, data)
        if ahead is not None:
            # Weights are pushed between two rollouts; trials of a worker that runs on are in their midst.
            data = ray.get(ahead)
        ray.get(manager.push.remote())
        if args.eval_interval and (rollout_id + 1) % int(args.eval_interval) == 0:
            ray.get(manager.eval.remote(rollout_id))
    ray.get(manager.dispose.remote())


if __name__ == "__main__":
    arguments = parse_args()
    ray.init(log_to_driver=True)
    train(arguments)
