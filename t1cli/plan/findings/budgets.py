"""R9: every token budget against the context wall."""

from __future__ import annotations

from collections.abc import Iterator

from t1cli.plan.draft import Draft
from t1cli.plan.plan import Finding


def summary_budget(draft: Draft) -> Iterator[Finding]:
    """R9: a summary call that asks for more than the wall leaves fails every time it is needed."""
    rollout = draft.spec.rollout
    if rollout.summary.kind != "summarize":
        return
    trigger, reply, wall = rollout.summary.trigger_tokens, rollout.summary.max_new_tokens, rollout.context_tokens
    if trigger + reply > wall:
        yield draft.finding(
            "R9",
            "error",
            key="rollout.summary.max_new_tokens",
            message=f"{trigger:,} + {reply:,} = {trigger + reply:,} > {wall:,}: a summary at the trigger asks for "
            f"{trigger + reply - wall:,} tokens more than the context wall leaves, so it fails whenever it is needed",
            fix=f"--set rollout.summary.max_new_tokens={max(1, wall - trigger)}, or "
            f"--set rollout.summary.trigger_tokens={max(1, wall - reply)}",
        )
    else:
        yield from _overshoot(draft)


def _overshoot(draft: Draft) -> Iterator[Finding]:
    """The history is looked at between turns, so it can pass the trigger by one whole turn."""
    rollout = draft.spec.rollout
    trigger, reply, wall = rollout.summary.trigger_tokens, rollout.summary.max_new_tokens, rollout.context_tokens
    turn = rollout.max_new_tokens_per_turn + rollout.observation_tokens
    if trigger + turn + reply <= wall:
        return
    yield draft.finding(
        "R9",
        "warning",
        key="rollout.summary.trigger_tokens",
        message=f"a history just below {trigger:,} can grow by one turn ({rollout.max_new_tokens_per_turn:,} reply + "
        f"{rollout.observation_tokens:,} observation) before the summary of {reply:,}: "
        f"{trigger + turn + reply:,} > {wall:,}, so the longest turns lose theirs",
        fix=f"--set rollout.summary.trigger_tokens={max(1, wall - turn - reply)}",
    )


def turn_budget(draft: Draft) -> Iterator[Finding]:
    """R9: a reply and an observation that together fill the wall."""
    rollout = draft.spec.rollout
    reply, observation, wall = rollout.max_new_tokens_per_turn, rollout.observation_tokens, rollout.context_tokens
    if reply + observation < wall:
        return
    yield draft.finding(
        "R9",
        "warning",
        key="rollout.max_new_tokens_per_turn",
        message=f"one turn can take {reply:,} + {observation:,} = {reply + observation:,} of {wall:,} tokens: "
        f"a second turn may not fit",
        fix=f"--set rollout.max_new_tokens_per_turn={max(1, wall // 4)}",
    )


RULES = (summary_budget, turn_budget)
