"""R1, R2, R5, R6, R7, R12: rewards that the algorithm, the pool or the length shaping turns against the run."""

from __future__ import annotations

from collections.abc import Iterator

from t1cli.plan.draft import Draft
from t1cli.plan.plan import Finding
from t1cli.spec.reward import MultiplicativeLength
from t1cli.spec.reward_scale import fits

# The report's post-mortem: a dense reward keeps its order only if turns up to here cost nothing.
LONGEST_FREE_ZONE_TURNS = 25


def dense_reward_without_ctrf(draft: Draft) -> Iterator[Finding]:
    """R1: counting tests on a pool whose verifiers emit one bit, or that was measured below the minimum."""
    card, tasks = draft.spec.tasks.card, draft.spec.tasks
    if draft.spec.reward.kind == "binary":
        return
    if card.verifier == "binary":
        yield draft.finding(
            "R1",
            "error",
            key="reward.kind",
            message=f"{draft.spec.reward.kind} counts tests, but {card.name} has binary verifiers: they write no "
            f"per-test report, so every trial would fall back to one bit",
            fix="--set reward.kind=binary, or a pool whose tests write CTRF",
        )
    elif card.ctrf_coverage is not None and card.ctrf_coverage < tasks.ctrf_minimum:
        sampled = f" of {card.ctrf_sampled} sampled tasks" if card.ctrf_sampled else ""
        yield draft.finding(
            "R1",
            "error",
            key="tasks.ctrf_minimum",
            message=f"{card.name} wrote a CTRF report in {card.ctrf_coverage:.1%}{sampled}, "
            f"the spec asks for {tasks.ctrf_minimum:.1%}",
            fix="repair the tasks (`t1 tasks audit`), or lower tasks.ctrf_minimum knowingly",
        )


def drifting_target(draft: Draft) -> Iterator[Finding]:
    """R2: a ratio or a per-batch scale makes the critic's target move with the batch."""
    reward, ppo = draft.spec.reward, draft.spec.algorithm.kind == "ppo"
    if reward.kind == "ctrf_count" and reward.scale_per_batch:
        yield draft.finding(
            "R2",
            "error" if ppo else "warning",
            key="reward.scale_per_batch",
            message="the count is divided by the batch's maximum: the same solve of 4 tests is worth "
            f"4/8 = 0.5 in a batch whose best passes 8 and 4/{_tests_max(draft)} = {4 / _tests_max(draft):.2f} beside "
            f"one that passes {_tests_max(draft)}" + (", so the critic's target drifts" if ppo else ""),
            fix=f"--set reward.scale_per_batch=false (fixed scale {reward.scale:g})",
        )
    if reward.kind == "pass_ratio" and ppo:
        yield draft.finding(
            "R2",
            "error",
            key="reward.kind",
            message="pass_ratio caps every task at 1.0 whatever its number of tests (1 of 1 equals 20 of 20), "
            "so a critic cannot tell long tasks from short ones; PPO needs an absolute count",
            fix="--set reward.kind=ctrf_count --set reward.scale=20",
        )
    elif reward.kind == "pass_ratio":
        yield draft.finding(
            "R2",
            "notice",
            key="reward.kind",
            message="pass_ratio caps every task at 1.0; fine for a group baseline, never for a critic"
            + ("; the signed map gives 2 × ratio - 1, so a lost task is worth -1" if reward.signed else ""),
            fix="nothing to do under grpo; ctrf_count before a move to ppo",
        )


def scale_off_the_pool(draft: Draft) -> Iterator[Finding]:
    """R2: a scale far from the pool's 90th percentile squeezes rewards together or blows them up."""
    reward, p90 = draft.spec.reward, draft.spec.tasks.card.tests_p90
    if reward.kind != "ctrf_count" or reward.scale_per_batch or p90 is None or fits(reward.scale, p90):
        return
    yield draft.finding(
        "R2",
        "notice",
        key="reward.scale",
        message=f"scale {reward.scale:g} against a 90th percentile of {p90:g} tests per task: a task of that size "
        f"earns {p90 / reward.scale:.2f} when solved, where about 1 was meant",
        fix=f"--set reward.scale={p90:.0f}",
    )


def additive_length(draft: Draft) -> Iterator[Finding]:
    """R5: subtracting per turn makes farming tests by rambling pay."""
    length, worth = draft.spec.reward.length, _test_worth(draft)
    if length.kind != "additive":
        return
    per_turn = length.penalty_per_turn
    break_even = f"{worth / per_turn:.0f} extra turns" if per_turn else "any number of turns"
    yield draft.finding(
        "R5",
        "warning" if length.allow else "error",
        key="reward.length.penalty_per_turn" if not length.allow else "reward.length.allow",
        message=f"one more passed test is worth {worth:g}, a turn costs {per_turn:g}: a test pays for {break_even}, so "
        f"rambling until one more test passes is rewarded. In the T1 report turns rose from 22 to above 50",
        fix="--set reward.length.kind=multiplicative, or none; reward.length.allow=true runs it anyway",
    )


def efficiency_bonus(draft: Draft) -> Iterator[Finding]:
    """R6: a bonus for short solves only reaches what is already short."""
    length = draft.spec.reward.length
    if length.kind != "efficiency_bonus":
        return
    turns, bonus = length.free_turns, length.bonus
    at_22 = bonus * max(0.0, 1 - 22 / turns) if turns else 0.0
    yield draft.finding(
        "R6",
        "warning",
        key="reward.length.bonus",
        message=f"the bonus falls from {bonus:g} at 0 turns to 0 at {turns} turns: a solve of 22 turns (the T1 "
        f"report's mean) gets {at_22:.3f}, a longer one than {turns} nothing, so it only moves the shortest solves",
        fix="--set reward.length.kind=none, or multiplicative",
    )


def multiplicative_order(draft: Draft) -> Iterator[Finding]:
    """R7: the discount must keep a 5-test solve at 50 turns below a 4-test solve of healthy length."""
    length, worth = draft.spec.reward.length, _test_worth(draft)
    if length.kind != "multiplicative":
        return
    rambling, healthy = 5 * worth * _kept(length, 50), 4 * worth * _kept(length, LONGEST_FREE_ZONE_TURNS)
    if rambling >= healthy:
        yield draft.finding(
            "R7",
            "error",
            key="reward.length.half_life_turns",
            message=f"5 tests at 50 turns earn {rambling:.3f}, 4 tests at {LONGEST_FREE_ZONE_TURNS} turns earn "
            f"{healthy:.3f}: with half-life {length.half_life_turns:g} after {length.free_turns} free turns the "
            f"longer solve still wins",
            fix="--set reward.length.half_life_turns=40 --set reward.length.free_turns=25",
        )
    elif length.free_turns > LONGEST_FREE_ZONE_TURNS:
        yield draft.finding(
            "R7",
            "warning",
            key="reward.length.free_turns",
            message=f"{length.free_turns} free turns are above {LONGEST_FREE_ZONE_TURNS}: lengths between the two "
            f"cost nothing, and that is where rambling starts",
            fix=f"--set reward.length.free_turns={LONGEST_FREE_ZONE_TURNS}",
        )
    if not length.zero_pass_penalty:
        yield draft.finding(
            "R7",
            "warning",
            key="reward.length.zero_pass_penalty",
            message="a discount multiplies 0 passed tests to 0 at any length: without a small negative, a failing "
            "trial is free to run into the wall",
            fix="--set reward.length.zero_pass_penalty=0.05",
        )


def one_bit_where_tests_count(draft: Draft) -> Iterator[Finding]:
    """R12: a binary reward on a pool that writes per-test results."""
    card = draft.spec.tasks.card
    if draft.spec.reward.kind != "binary" or card.verifier != "ctrf":
        return
    tests = f" (median {card.tests_median:g} tests a task)" if card.tests_median else ""
    yield draft.finding(
        "R12",
        "warning",
        key="reward.kind",
        message=f"one bit per trial on {card.name}, whose tests are counted one by one{tests}: "
        f"partial progress earns nothing",
        fix="--set reward.kind=ctrf_count, unless this is the binary arm of a comparison",
    )


def fallback_outweighs(draft: Draft) -> Iterator[Finding]:
    """R12: a fallback worth more than an honest dense solve rewards a missing report."""
    reward, median = draft.spec.reward, draft.spec.tasks.card.tests_median
    if reward.kind == "binary" or median is None or draft.spec.tasks.card.verifier == "binary":
        return
    solve = median / reward.scale if reward.kind == "ctrf_count" else 1.0
    if reward.fallback.value <= solve:
        return
    yield draft.finding(
        "R12",
        "warning",
        key="reward.fallback.value",
        message=f"a fallback pays {reward.fallback.value:g}, a fully solved median task "
        f"{median:g}/{reward.scale if reward.kind == 'ctrf_count' else median:g} = {solve:g}: "
        f"{reward.fallback.value / solve:.1f}× as much for losing the report. At most "
        f"{reward.fallback.max_share:.0%} of a rollout's reward may come from fallbacks",
        fix=f"--set reward.fallback.value={solve:g}, or a lower reward.fallback.max_share",
    )


def _test_worth(draft: Draft) -> float:
    """Reward of one more passed test, on a median task where the reward is a ratio."""
    reward, median = draft.spec.reward, draft.spec.tasks.card.tests_median
    if reward.kind == "ctrf_count":
        return 1 / reward.scale
    return 1 / median if reward.kind == "pass_ratio" and median else 1.0


def _tests_max(draft: Draft) -> int:
    return draft.spec.tasks.card.tests_max or 40


def _kept(length: MultiplicativeLength, turns: int) -> float:
    """Share of the reward that survives `turns`: halved per half-life beyond the free zone."""
    return float(0.5 ** (max(0, turns - length.free_turns) / length.half_life_turns))


RULES = (
    dense_reward_without_ctrf,
    drifting_target,
    scale_off_the_pool,
    additive_length,
    efficiency_bonus,
    multiplicative_order,
    one_bit_where_tests_count,
    fallback_outweighs,
)
