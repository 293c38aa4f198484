"""Harbor's Terminus-2 in a live environment. Worker's side."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from t1cli.terminal.sandbox.harbor.machine import Machine
from t1cli.terminal.sandbox.sandbox import SandboxError

_LOGS: Final = "/logs/agent"
_REPLY_SECONDS: Final = 24 * 3600
"""For one reply: the trial's deadline, which may stand still meanwhile, is the caller's to keep."""
_LISTS: Final = ("prompt_token_ids", "completion_token_ids", "logprobs")


async def play_terminus(machine: Machine, directory: Path, asked: Mapping[str, Any]) -> dict[str, Any]:
    """Run the agent to its end: `episodes`, `error` (its type and message, or null) and `ids_problem` (empty for none).

    Raises SandboxError when its terminal cannot be started, and when the environment is gone afterwards.
    """
    # litellm takes seconds to import, and this loop keeps every other sandbox.
    module = await asyncio.to_thread(import_module, "harbor.agents.terminus_2.terminus_2")
    context = import_module("harbor.models.agent.context").AgentContext()
    agent = module.Terminus2(**_options(directory, asked))
    await machine.reset_directory(_LOGS)
    error: Exception | None = None
    with machine.as_agent() as environment:
        try:
            await agent.setup(environment)
        except Exception as failed:  # whatever the provider's client or the installation of tmux raises
            raise SandboxError(f"terminus-2 cannot start: {type(failed).__name__}: {str(failed)[-500:]}") from failed
        try:
            await agent.run(asked["instruction"], environment, context)
        except Exception as failed:  # of the agent, of litellm, or of the endpoint: the caller tells them apart
            error = failed
    await machine.check()
    return {
        "episodes": int((context.metadata or {}).get("n_episodes", 0)),
        "error": None if error is None else {"type": type(error).__name__, "message": str(error)[-2000:]},
        "ids_problem": ids_problem(context.rollout_details),
    }


def ids_problem(details: Sequence[Mapping[str, Any]] | None) -> str:
    """What is wrong with the ids that the agent was given; empty when every reply has them, each with a log-prob."""
    if not details:
        return "rollout_details is empty"
    for number, detail in enumerate(details):
        lists = {name: detail.get(name) or [] for name in _LISTS}
        lengths = {name: len(found) for name, found in lists.items()}
        if len(set(lengths.values())) != 1 or 0 in lengths.values():
            return f"segment {number} has lists of unequal length: {lengths}"
        for turn, (ids, log_probs) in enumerate(zip(lists["completion_token_ids"], lists["logprobs"], strict=True)):
            if len(ids) != len(log_probs):
                return f"segment {number}, turn {turn}: {len(ids)} ids and {len(log_probs)} log-probs"
    return ""


def _options(directory: Path, asked: Mapping[str, Any]) -> dict[str, Any]:
    free = asked["summarize_below_tokens"]
    return {
        "logs_dir": directory / "agent",
        "model_name": f"hosted_vllm/{asked['model']}",
        "api_base": asked["endpoint"],
        "llm_kwargs": {"api_key": asked["api_key"]},
        "llm_call_kwargs": {"timeout": _REPLY_SECONDS},
        "model_info": {
            "max_input_tokens": asked["context_tokens"],
            "max_output_tokens": asked["reply_tokens"],
            "input_cost_per_token": 0.0,
            "output_cost_per_token": 0.0,
        },
        "max_turns": asked["max_turns"],
        "suppress_max_turns_warning": True,
        "collect_rollout_details": True,
        "enable_summarize": free is not None,
        **({} if free is None else {"proactive_summarization_threshold": free}),
        "record_terminal_session": False,
    }
