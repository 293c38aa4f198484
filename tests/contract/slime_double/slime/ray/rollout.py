"""The rules that slime v0.3.0 holds a rollout's output to, and the training data made of it."""

from __future__ import annotations

from typing import Any

from slime.utils.types import Sample


def flatten(groups: list[Any], per_prompt: int) -> list[Sample]:
    """Groups × samples (× siblings): siblings share a group_id, a group has its full count.

    As slime flattens: one level at a time for as long as the first entry is a list, whatever the others are.
    """
    for group in groups:
        assert isinstance(group, list) and len(group) == per_prompt, "a group is not complete"
        for siblings in (entry for entry in group if isinstance(entry, list) and len(entry) > 1):
            ids = {_unit(sample) for sample in siblings}
            assert len(ids) == 1 and None not in ids, "siblings without a common group_id"
    flat: list[Any] = groups
    while isinstance(flat[0], list):
        flat = [inner for outer in flat for inner in outer]
    assert all(isinstance(sample, Sample) for sample in flat), "entries are nested unequally deep"
    return flat


def train_data(samples: list[Sample], raw: list[float], shaped: list[float], *, replay: bool) -> dict[str, Any]:
    """Raises AssertionError wherever slime would."""
    assert len(raw) == len(shaped) == len(samples) > 0
    for sample in samples:
        assert sample.reward is not None and sample.status is not Sample.Status.ABORTED
        assert sample.response_length >= 1, "PPO indexes the last token of the response"
        assert sample.response_length <= len(sample.tokens)
        mask = sample.loss_mask if sample.loss_mask is not None else [1] * sample.response_length
        assert len(mask) == sample.response_length, "loss mask length"
        sample.loss_mask = [0] * sample.response_length if sample.remove_sample else mask
        # Optional fields are taken from every sample when the first one has them.
        if samples[0].rollout_log_probs is not None:
            assert len(sample.rollout_log_probs) == sample.response_length
        if replay:
            assert sample.rollout_routed_experts.shape[0] == len(sample.tokens) - 1
            assert str(sample.rollout_routed_experts.dtype) == "int32"
    indices = [sample.index for sample in samples]
    assert len(set(indices)) == len(indices), "sample numbers repeat"
    return {
        "rewards": shaped,
        "raw_reward": raw,
        "loss_masks": [sample.loss_mask for sample in samples],
        "response_lengths": [sample.response_length for sample in samples],
        "total_lengths": [len(sample.tokens) for sample in samples],
        "group_ids": [_unit(s) if _unit(s) is not None else s.index for s in samples],
        "tokens": [sample.tokens for sample in samples],
        "rollout_log_probs": [sample.rollout_log_probs for sample in samples],
    }


def _unit(sample: Any) -> Any:
    # v0.3.1 calls it `rollout_id`, for a test that brings v0.3.1's own Sample.
    return sample.group_id if hasattr(sample, "group_id") else sample.rollout_id
