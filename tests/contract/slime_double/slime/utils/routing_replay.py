"""Replay with slime's names and stages: recorded rows are taken one micro-batch at a time, gates from live scores."""

from __future__ import annotations

import os

ROUTING_REPLAY = None


class RoutingReplay:
    """The rows of one router."""

    def __init__(self, rows):
        self.rows, self.forward_index = rows, 0

    def pop_forward(self):
        self.forward_index += 1
        return self.rows[self.forward_index - 1]


def get_routing_replay_compute_topk(old_compute_topk):
    def compute_topk(scores, topk, num_groups=None, group_topk=None):
        routing_replay_stage = os.environ["ROUTING_REPLAY_STAGE"]
        if routing_replay_stage != "replay_forward":
            return old_compute_topk(scores, topk, num_groups=num_groups, group_topk=group_topk)
        top_indices = ROUTING_REPLAY.pop_forward()
        probs = scores.gather(1, top_indices)
        return probs, top_indices

    return compute_topk
