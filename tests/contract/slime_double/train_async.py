"""A double of slime's train_async.py: one rollout ahead, and never an evaluation before the first step."""

from __future__ import annotations

import argparse

import ray
from train import parse_args, start, step


def train(args: argparse.Namespace) -> None:
    roles, first = start(args)
    manager = roles[0]
    ahead = manager.generate.remote(first)
    for rollout_id in range(first, args.num_rollout):
        data = ray.get(ahead)
        if rollout_id + 1 < args.num_rollout:
            ahead = manager.generate.remote(rollout_id + 1)
        step(args, roles, rollout_id, data)
        if args.eval_interval and (rollout_id + 1) % int(args.eval_interval) == 0:
            ray.get(manager.eval.remote(rollout_id))
    ray.get(manager.dispose.remote())


if __name__ == "__main__":
    arguments = parse_args()
    ray.init(log_to_driver=True)
    train(arguments)
