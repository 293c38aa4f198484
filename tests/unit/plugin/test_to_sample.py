"""Rows as slime's Samples: slime's own rules, held by the double, on rows that hypothesis makes."""

from __future__ import annotations

from argparse import Namespace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from t1cli.plugin.to_sample import lost_sample, to_samples
from t1cli.terminal.trajectory.row import Audit, TrainingRow


def row(trial: str, group: int, tokens: int, prompt: int, mask: list[int], stop: str = "done") -> TrainingRow:
    loss = np.asarray(([0] * prompt + mask)[:tokens], dtype=np.uint8)
    return TrainingRow(
        trial_id=trial,
        group_id=group,
        task="t",
        family="f",
        tokens=np.arange(tokens, dtype=np.int32),
        response_start=prompt,
        loss_mask=loss,
        log_probs=(-0.5 * loss).astype(np.float32),
        routed_experts=np.zeros((tokens - 1, 2, 2), dtype=np.uint8),
        reward=0.25,
        outcome="scored",
        weight_versions=(3, 4),
        stop=stop,
        audit=Audit(turns=2),
    )


@st.composite
def batches(draw: st.DrawFn) -> tuple[list[TrainingRow], int]:
    """Whole groups of `per_prompt` trials of one to three rows."""
    per_prompt, rows = draw(st.integers(1, 3)), []
    for group in range(draw(st.integers(1, 3))):
        for sample in range(per_prompt):
            for _ in range(draw(st.integers(1, 3))):
                prompt, response = draw(st.integers(2, 5)), draw(st.integers(0, 6))
                mask = draw(st.lists(st.integers(0, 1), min_size=response, max_size=response))
                stop = draw(st.sampled_from(["done", "turns", "wall"]))
                rows.append(row(f"g{group}s{sample}", group, prompt + response, prompt, mask, stop))
    return rows, per_prompt


@settings(max_examples=60, deadline=None)
@given(batches())
def test_samples_keep_slimes_rules(batch: tuple[list[TrainingRow], int]) -> None:
    from slime.ray.rollout import flatten, train_data

    rows, per_prompt = batch
    samples = flatten(to_samples(rows, first_index=1000, with_routing=True), per_prompt)
    rewards = [sample.get_reward_value(Namespace()) for sample in samples]
    data = train_data(samples, rewards, rewards, replay=True)
    assert len(samples) == len(rows)
    by_content = {id(r): r for r in rows}
    for sample, source in zip(
        samples, sorted(by_content.values(), key=lambda r: (r.group_id, r.trial_id)), strict=True
    ):
        assert sample.tokens == source.tokens.tolist()
        assert sum(sample.loss_mask) == source.loss_mask.sum()
        assert sample.remove_sample == (source.loss_mask.sum() == 0)
        assert (sample.status.value == "truncated") == (source.stop != "done")
    units = {(s.metadata["trial_id"]): s.group_id for s in samples}
    assert len(set(data["group_ids"])) == len(units), "one unit of loss per trial, whatever its number of rows"


def test_the_mask_and_log_probs_are_those_of_the_response() -> None:
    from slime.utils.types import Sample

    (((sample,),),) = to_samples([row("a", 7, 6, 2, [1, 0, 1, 1])], first_index=0, with_routing=False)
    assert sample.response_length == 4 and sample.loss_mask == [1, 0, 1, 1]
    assert sample.rollout_log_probs == [-0.5, 0.0, -0.5, -0.5] and sample.rollout_routed_experts is None
    assert sample.group_index == 7 and sample.weight_versions == ["3", "4"]
    assert sample.status is Sample.Status.COMPLETED and sample.metadata["round_number"] == 2


def test_a_lost_trial_is_aborted_and_would_do_no_harm_all_the_same() -> None:
    from slime.utils.types import Sample

    sample = lost_sample(Sample(index=1, group_index=0))
    assert sample.status is Sample.Status.ABORTED and sample.remove_sample
    assert sample.reward == 0.0 and sample.loss_mask == [0] and sample.response_length == 1
