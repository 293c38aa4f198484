"""What a session did with the requests that it got; nothing that is not exact happens without a count here."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Literal

from t1cli.terminal.harness.engine import EngineError
from t1cli.terminal.harness.session.chat_request import ChatRefusal

Way = Literal["opened", "appended", "rendered"]
"""How a prompt came about: the session's first one; new messages after a reply; a chat rendered as a whole because it
is not one that the session holds, or because the model's family has no append-only template."""


@dataclass
class SessionReport:
    """Counters of one session."""

    turns: int = 0
    ways: Counter[Way] = field(default_factory=Counter)
    prompt_tokens: int = 0
    """Ids of all prompts, repetitions included."""
    encoded_tokens: int = 0
    """Ids of prompts that were rendered and encoded; the rest was kept from earlier turns."""
    sampled_tokens: int = 0
    lost_tokens: int = 0
    """Sampled for replies that never became a turn."""
    branches: int = 0
    """Prompts that went on from another reply than the latest."""
    ties: int = 0
    """Prompts that went on from one of several replies that said the same."""
    departures: list[str] = field(default_factory=list)
    """Where a request departed from the history that the session holds, one sentence per request."""
    overridden: Counter[str] = field(default_factory=Counter)
    """Settings of requests that the session's own replaced, by name."""
    engine_errors: list[str] = field(default_factory=list)
    problem: ChatRefusal | EngineError | None = None
    """Why the latest request got no reply; None when it got one."""
    is_cut: bool = False
    """Whether the latest reply ended at its limit."""

    @property
    def kept_tokens(self) -> int:
        """Ids of prompts that nobody had to encode again."""
        return self.prompt_tokens - self.encoded_tokens
