"""A history that nears the context wall, replaced by what the model says about it (context compaction).

The request is one more message of the chat, so that the summary's prompt continues the history exactly and its tokens
are trained like any other reply's. The chat that begins with the summary is a new row of the same group.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, replace
from typing import Final, Literal

from t1cli.terminal.harness.chat_template import ChatTemplate, Conversation
from t1cli.terminal.harness.engine import EngineError, Generation
from t1cli.terminal.harness.limits import Limits

REQUEST: Final = (
    "This chat is getting too long. It will be replaced by the task and by your next reply, and nothing else of it "
    "stays. Run no command now. Write down, for yourself, what was done, what was found out (paths, values, errors) "
    "and what is still to do."
)
AFTER_SUMMARY: Final = "The task is under way; files are as you left them. What you wrote down about it:"
AFTER_FALLBACK: Final = "The task is under way; files are as you left them. The end of what was said before:"
FALLBACK_CHARACTERS: Final = 1000
"""Characters that the cut history keeps, its last ones."""
LEAST_TOKENS: Final = 32
"""Where the wall leaves less than this, and less than the budget, no summary is asked for."""

Ask = Callable[[tuple[int, ...], str, int], Awaitable[Generation | None]]
"""Prompt ids, a name that is unique within the trial, a token limit: the recorded reply, or None at the deadline."""


@dataclass(frozen=True)
class SummaryCounts:
    """What became of one trial's summaries. One that the trial's own end cut off is in no count."""

    full: int = 0
    """Ended by themselves."""
    short: int = 0
    """Cut at their token limit: the budget, or what the wall left of it."""
    fallback: int = 0
    """The request failed, had no room or was answered with nothing: the chat went on with a cut history."""

    @property
    def tried(self) -> int:
        return self.full + self.short + self.fallback


class Summarizer:
    """Keeps one trial's chat below the context wall, and counts how it went (catalogue R9 at rollout)."""

    def __init__(self, template: ChatTemplate, limits: Limits) -> None:
        self.counts = SummaryCounts()
        self._template, self._limits = template, limits

    def is_due(self, prompt_tokens: int) -> bool:
        """Whether a history is as long as the trigger, or leaves no room for a whole reply. Never without a budget."""
        summary = self._limits.summary
        if summary is None:
            return False
        no_room = prompt_tokens + self._limits.max_new_tokens_per_turn > self._limits.context_tokens
        return no_room or prompt_tokens >= summary.trigger_tokens

    async def compacted(
        self, instruction: str, conversation: Conversation, *, ask: Ask, told: Iterable[str]
    ) -> Conversation | None:
        """A new chat about what came of this one; None when the deadline came first.

        `told`: everything that was said so far, the latest first, for the cut history.
        """
        ids = conversation.asking(REQUEST)
        max_new_tokens = self._room(len(ids))
        try:
            generation = await ask(ids, f"s{self.counts.tried}", max_new_tokens) if max_new_tokens else _NOTHING
        except EngineError:
            generation = _NOTHING
        if generation is None:
            return None
        text = self._template.words(self._template.decode(generation.sampled_ids)).strip()
        if not text:
            self._count("fallback")
            return self._template.begin(f"{instruction}\n\n{AFTER_FALLBACK}\n{_end_of(told)}")
        self._count("short" if generation.finish_reason == "length" else "full")
        return self._template.begin(f"{instruction}\n\n{AFTER_SUMMARY}\n{text}")

    def _room(self, prompt_tokens: int) -> int:
        """Tokens that a summary may have; 0 when too few are left below the wall."""
        assert self._limits.summary is not None, "asked for only when due"
        budget_tokens = self._limits.summary.max_new_tokens
        left_tokens = self._limits.context_tokens - prompt_tokens
        return min(budget_tokens, left_tokens) if left_tokens >= min(budget_tokens, LEAST_TOKENS) else 0

    def _count(self, outcome: Literal["full", "short", "fallback"]) -> None:
        self.counts = replace(self.counts, **{outcome: getattr(self.counts, outcome) + 1})


_NOTHING: Final = Generation((), (), None, "abort", -1)


def _end_of(told: Iterable[str]) -> str:
    """The last characters of what was said, whose parts come latest first."""
    end = ""
    for part in told:
        end = f"{part}\n{end}" if end else part
        if len(end) >= FALLBACK_CHARACTERS:
            break
    return end[-FALLBACK_CHARACTERS:]
