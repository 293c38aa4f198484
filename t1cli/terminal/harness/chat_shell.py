"""A small text harness, to use or to start one's own from: a chat over OpenAI's API, one shell command per reply.

`rollout.harness: t1cli.terminal.harness.chat_shell:fenced` is for chat models: the command stands in a fenced block.
`…:line` is for a model that was only taught to write command lines, such as the embedded engine's: the reply is one.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from t1cli.terminal.harness.chat_template import Reply
from t1cli.terminal.harness.observation import observation_text
from t1cli.terminal.harness.text_harness import Ending, TextTrial

if TYPE_CHECKING:
    import httpx

SYSTEM: Final = (
    "You solve a task in a Linux shell. Write one command line per reply, in one fenced block that begins with ```bash "
    "and ends with ```. Every command starts in /work, in a new shell. When the task is done, reply without a block."
)
BUDGETS: Final = frozenset({"turn_limit_exceeded", "context_length_exceeded"})
"""Codes with which the endpoint says that the trial is over."""
_FENCE: Final = re.compile(r"```(?:bash|sh|shell)?[ \t]*\n(.*?)\n?```", re.DOTALL)

Read = Callable[[str], Reply]


async def fenced(trial: TextTrial) -> Ending | None:
    """One fenced command per reply; a reply without a block says that the task is done."""
    start = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": trial.instruction}]
    return await _chat(trial, start, read_fenced)


async def line(trial: TextTrial) -> Ending | None:
    """The reply is the command; an empty one says that the task is done. The model hears nothing but the task."""
    return await _chat(trial, [{"role": "user", "content": trial.instruction}], read_line)


def read_fenced(said: str) -> Reply:
    """What a reply with a fenced block asks for."""
    blocks = _FENCE.findall(said)
    if len(blocks) == 1:
        return read_line(blocks[0]) if blocks[0].strip() else Reply("malformed", why="the command is empty")
    if blocks or "```" in said:
        return Reply("malformed", why=f"expected one closed fenced block, found {len(blocks)}")
    return Reply("done")


def read_line(said: str) -> Reply:
    """What a reply that is a command line asks for."""
    if not said.strip():
        return Reply("done")
    if "\0" in said or "\ufffd" in said:
        return Reply("malformed", why="the command holds bytes that no shell takes")
    return Reply("command", said)


async def _chat(trial: TextTrial, messages: list[dict[str, str]], read: Read) -> Ending | None:
    import httpx

    # The endpoint bounds every reply, and the trial's deadline bounds them all.
    async with httpx.AsyncClient(base_url=trial.base_url, timeout=None, trust_env=False) as http:
        malformed_in_a_row = 0
        while True:
            choice = await _reply(http, trial, messages)
            if choice is None or choice["finish_reason"] == "length":
                return None
            asked = read(choice["message"]["content"] or "")
            if asked.kind == "done":
                return "done"
            malformed_in_a_row = malformed_in_a_row + 1 if asked.kind == "malformed" else 0
            if malformed_in_a_row >= trial.limits.max_malformed_in_a_row:
                return "malformed"
            messages.append({"role": "assistant", "content": choice["message"]["content"] or ""})
            messages.append({"role": "user", "content": await _observed(trial, asked)})


async def _reply(http: httpx.AsyncClient, trial: TextTrial, messages: list[dict[str, str]]) -> dict[str, Any] | None:
    """The policy's next reply; None when a budget of the trial is used up."""
    answer = await http.post("/chat/completions", json={"model": trial.model, "messages": messages})
    if answer.status_code == 400 and answer.json()["error"]["code"] in BUDGETS:
        return None
    answer.raise_for_status()
    choice: dict[str, Any] = answer.json()["choices"][0]
    return choice


async def _observed(trial: TextTrial, asked: Reply) -> str:
    """What the policy sees of its command, or why it could not be read."""
    if asked.kind == "malformed":
        return trial.fitted(f"malformed reply: {asked.why}")
    limit_seconds = min(trial.limits.command_timeout_seconds, trial.seconds_left)
    result = await trial.sandbox.exec(asked.command, timeout_seconds=limit_seconds)
    return trial.fitted(observation_text(result, timeout_seconds=limit_seconds))
