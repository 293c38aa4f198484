"""`rollout.harness: terminus-2`: Harbor's reference agent, run by Harbor's worker in the trial's own environment.

It works on a terminal (tmux) from outside the sandbox and speaks to the trial's endpoint like to any OpenAI server, so
what is trained are the ids that the policy sampled. It needs `sandbox.kind: harbor` and tmux in the image.
"""

from __future__ import annotations

from typing import Any, Final

from t1cli.terminal.harness.text_harness import Ending, TextTrial

_ENDINGS: Final[dict[str, Ending]] = {
    "ContextLengthExceededError": "context",
    "OutputLengthExceededError": "reply_cut",
}
"""Harbor's names (0.26.0) for ends that are the policy's own."""


class Terminus2Failed(Exception):
    """The agent itself failed."""


class NoTokenIds(Exception):
    """The agent asked for token ids and has none, or not as many as log-probs: it never spoke to the policy, or lost
    part of what it said. Harbor reports such a trial as a valid reward of 0."""


async def play(trial: TextTrial) -> Ending | None:
    """Run Terminus-2 to its end. Raises SandboxError, NoTokenIds and Terminus2Failed."""
    said = await trial.sandbox.run_agent(_request(trial))
    error = said["error"]
    if error is not None and error["type"] not in _ENDINGS:
        raise Terminus2Failed(f"{error['type']}: {error['message']}")
    if said["ids_problem"]:
        raise NoTokenIds(said["ids_problem"])
    if error is not None:
        return _ENDINGS[error["type"]]
    return "turns" if said["episodes"] >= trial.limits.max_turns else None


def _request(trial: TextTrial) -> dict[str, Any]:
    limits, summary = trial.limits, trial.limits.summary
    return {
        "agent": "terminus-2",
        "instruction": trial.instruction,
        "endpoint": trial.endpoint,
        "api_key": trial.api_key,
        "model": trial.model,
        "max_turns": limits.max_turns,
        "context_tokens": limits.context_tokens,
        "reply_tokens": limits.max_new_tokens_per_turn,
        # It counts what is left, not what is used.
        "summarize_below_tokens": None if summary is None else limits.context_tokens - summary.trigger_tokens,
    }
