"""`rollout`: how a batch of trials is generated."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt

from t1cli.spec.block import Block


class SummarySpec(Block):
    """What happens when the history nears the context wall."""

    kind: Literal["none", "summarize"] = "none"
    """`none`: the trial ends at the wall. `summarize`: the model rewrites its history."""
    trigger_tokens: NonNegativeInt = 0
    """History length that starts a summary."""
    max_new_tokens: NonNegativeInt = 0
    """Tokens that the summary call may generate; history + this must stay below the wall."""


class RolloutSpec(Block):
    """How a batch of trials is generated."""

    pipeline: Literal["sync", "one_step", "fully_async"] = "sync"
    """`sync`: generate, then train. `one_step`: batch t+1 is generated while t trains. `fully_async`: no barrier."""
    max_staleness: NonNegativeInt = 0
    """Weight versions a sample may lag behind; 0 under sync, 1 under one_step, more with `unfinished: continue`."""
    allow_staleness: bool = False
    """Accept a max_staleness of 8 or more, where the report's baselines collapsed."""
    num_rollouts: PositiveInt
    """Rollouts of the campaign, resumed ones included; always explicit."""
    batch_size: PositiveInt
    """Prompt groups that one rollout trains on."""
    samples_per_prompt: PositiveInt = 1
    """Trials per prompt."""
    over_sampling_batch_size: PositiveInt | None = None
    """Groups launched per rollout; the first `batch_size` finished are kept. Null means no surplus."""
    unfinished: Literal["drop", "repeat", "continue"] = "drop"
    """What becomes of surplus groups that still run when enough have finished, which are mostly the hard ones. `drop`:
    their prompts wait for the next epoch. `repeat`: they come first in the next rollout. `continue`: they do, and their
    trials go on there in the same sandboxes; a row then spans weight versions, so `max_staleness` must allow it."""
    start_order: Literal["drawn", "longest_first"] = "longest_first"
    """`longest_first`: groups whose tasks took longest in earlier rollouts are started first; it matters when not all
    have a sandbox at once."""
    context_tokens: PositiveInt
    """The context wall of a trial: prompt, replies and observations together."""
    max_new_tokens_per_turn: PositiveInt
    """Limit of one model reply."""
    max_turns: PositiveInt
    """Turns after which a trial is stopped."""
    temperature: PositiveFloat = 1.0
    """Sampling temperature."""
    top_p: float = Field(default=1.0, gt=0.0, le=1.0)
    """Nucleus sampling."""
    thinking: Literal["off", "on"] = "off"
    """Whether the chat template lets the model think before it acts."""
    stop_token_ids: tuple[NonNegativeInt, ...] = ()
    """Tokens that end a reply, besides the model's own."""
    dynamic_filter: str | None = None
    """Dotted path of a function that drops whole groups, under slime's contract `function(args, samples)`, for example
    `t1cli.terminal.rollout.group_filter.rewards_differ`. They come out of the surplus; a batch that would not fill
    takes the earliest back."""
    trial_wall_seconds: PositiveFloat
    """Whole-trial deadline, grading included."""
    command_timeout_seconds: PositiveFloat = 30.0
    """Time limit of one shell command."""
    observation_tokens: PositiveInt = 1024
    """An observation longer than this is cut in the middle."""
    summary: SummarySpec = SummarySpec()
    """What happens near the context wall."""
    routing_replay: bool = True
    """Replay the sampler's expert choices in the actor's training passes (MoE only)."""
    first_gap_limit: PositiveFloat | None = 0.1
    """Mean |trainer - sampler| log-prob before a session's first actor step, above which it stops: both hold the same
    weights then. The T1 report saw 0.021 without and 0.013 with routing replay. Null never stops."""
    harness: str = "builtin"
    """Agent loop: `builtin`, `terminus-2` (of Harbor, in Harbor's environments), or `package.module:function`: an async
    function of your own. The latter two play a trial over a chat endpoint, with exact tokens."""
    expected_seconds: NonNegativeFloat | None = None
    """Measured or expected wall time of one rollout, for the schedule; null leaves it out."""
    expected_train_seconds: NonNegativeFloat | None = None
    """Measured or expected wall time of one training step, for the schedule."""

    @property
    def groups_launched(self) -> int:
        """Groups that one rollout launches, the surplus included."""
        return self.over_sampling_batch_size or self.batch_size
