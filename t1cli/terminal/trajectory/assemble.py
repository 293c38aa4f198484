"""Turns to TrainingRows, as they arrive: each continues the longest history that it can, or starts a new row.

The engine may be talked to in any order: a sub-agent's own conversation, a retry from an earlier state, a compacted
history. Each branch of that tree is a row of the same group, and a turn is compared with the end of every branch:
strict relations first, then normalized, then retokenized ones, among equals the longest history, among equally long
ones the latest (a tie, counted).

What a prompt or its routing repeats is not kept: per turn, the row grows by the new ids and their routing rows only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np

from t1cli.terminal.trajectory.blame import rule_of
from t1cli.terminal.trajectory.draft import Placement, RowDraft
from t1cli.terminal.trajectory.relations import History, Match, common_prefix, normalized, retokenized, strict
from t1cli.terminal.trajectory.routing import MissingRouting, WrongRouting
from t1cli.terminal.trajectory.row import Ids, TrainingRow, Turn
from t1cli.terminal.trajectory.text_space import TextSpace, atom, reply_pieces

UNCAPTURED = "no turn captured the routing where the history ends"
"""Rule of a split that routing replay makes necessary."""
RoutingUse = Literal["required", "kept"]
"""`required`: replayed, so a turn without it aborts the rollout. `kept`: stored when every turn of a row has it."""


@dataclass(frozen=True)
class RowLabel:
    """What the rows of one trial have in common."""

    trial_id: str
    group_id: int
    task: str
    family: str
    reward: float
    outcome: str = "scored"
    stop: str = "done"


class Assembler:
    """The rows of one trial while it runs (catalogue F1). Without a text space only strict relations are found."""

    def __init__(self, *, trial_id: str, routing: RoutingUse, text: TextSpace | None = None) -> None:
        self.turns = 0
        self.sampled_tokens = 0
        self._trial_id, self._routing, self._text = trial_id, routing, text
        self._drafts: list[RowDraft] = []
        """The end of each is the end of a branch; the latest turn's is the last one."""

    def add(self, turn: Turn) -> None:
        """Take one turn; nothing of it but what is new is kept. Raises MissingRouting and WrongRouting."""
        prompt, sampled = np.asarray(turn.prompt_ids, dtype=np.int32), np.array(turn.sampled_ids, dtype=np.int32)
        self._check(turn, prompt, sampled)
        draft, placement = self._place(turn, prompt, sampled)
        draft.append(turn, prompt, sampled, placement)
        self._drafts = [*(other for other in self._drafts if other is not draft), draft]
        self.turns += 1
        self.sampled_tokens += len(sampled)

    def rows(self, label: RowLabel) -> tuple[TrainingRow, ...]:
        """The rows in the order in which they began; ends the assembly. Raises WrongRouting.

        A row without a single sampled token is left out, unless it is all there is.
        """
        drafts = sorted(self._drafts, key=lambda draft: draft.records[0].turn)
        sampling = [draft for draft in drafts if any(record.sampled for record in draft.records)]
        return tuple(_finished(draft, label) for draft in sampling or drafts[:1])

    def _place(self, turn: Turn, prompt: Ids, sampled: Ids) -> tuple[RowDraft, Placement]:
        """The branch that the turn continues, or a new row for it."""
        pieces = self._reply_pieces(turn, sampled)
        refused = False
        for relation in self._relations():
            found = [(draft, match) for draft in self._drafts if (match := relation(draft.history, prompt))]
            usable = [(draft, match) for draft, match in found if draft.can_take(match, prompt, len(sampled))]
            if usable:
                longest = max(len(draft.history.ids) for draft, _ in usable)
                best = [(draft, match) for draft, match in usable if len(draft.history.ids) == longest]
                draft, match = best[-1]
                rule = "" if match.relation == "strict" else self._rule(draft, prompt)
                return draft, Placement(self.turns, match, rule, len(best) > 1, pieces)
            refused = refused or bool(found)
        return RowDraft(replayed=self._routing == "required"), self._opening(prompt, pieces, refused)

    def _opening(self, prompt: Ids, pieces: list[str] | None, refused: bool) -> Placement:
        if not self._drafts:
            return Placement(self.turns, Match("strict", 0), reply_pieces=pieces)
        # Of the branches that have most ids in common with the prompt, the latest is the one that it departs from.
        nearest = max(reversed(self._drafts), key=lambda draft: common_prefix(draft.history.ids, prompt))
        rule = UNCAPTURED if refused else self._rule(nearest, prompt)
        return Placement(self.turns, Match("split", 0), rule, reply_pieces=pieces)

    def _relations(self) -> Sequence[Callable[[History, Ids], Match | None]]:
        """The relations in the order in which they are tried."""
        if self._text is None:
            return (strict,)
        return (strict, partial(normalized, text=self._text), partial(retokenized, text=self._text))

    def _reply_pieces(self, turn: Turn, sampled: Ids) -> list[str] | None:
        if turn.offsets is None or self._text is None:
            return None
        said = zip(sampled.tolist(), self._text.pieces(sampled), strict=True)
        return reply_pieces(turn.text, turn.offsets, [atom(i) if piece.endswith(atom(i)) else "" for i, piece in said])

    def _rule(self, draft: RowDraft, prompt: Ids) -> str:
        return rule_of(draft.history, draft.reply_spans, prompt, self._text)

    def _check(self, turn: Turn, prompt: Ids, sampled: Ids) -> None:
        trial = self._trial_id
        if len(turn.log_probs) != len(sampled):
            raise ValueError(f"{trial}: {len(sampled)} sampled ids, {len(turn.log_probs)} log-probs")
        if not len(prompt):
            raise ValueError(f"{trial}: a turn without prompt ids")
        if turn.routed_experts is None:
            if self._routing == "required":
                raise MissingRouting(
                    f"trial {trial}: the engine sent no routed experts; dropping the trial would bias the batch",
                    hint="start the engine with routed experts returned, or set rollout.routing_replay=false",
                )
            return
        shape, wanted = turn.routed_experts.shape, len(prompt) + len(sampled) - 1
        if len(shape) != 3 or shape[0] != wanted:
            raise WrongRouting(f"trial {trial}: routing of shape {shape}, expected {wanted} rows")


def _finished(draft: RowDraft, label: RowLabel) -> TrainingRow:
    return TrainingRow(
        trial_id=label.trial_id,
        group_id=label.group_id,
        task=label.task,
        family=label.family,
        tokens=np.array(draft.tokens, dtype=np.int32),
        response_start=draft.response_start,
        loss_mask=np.array(draft.loss_mask, dtype=np.uint8),
        log_probs=np.array(draft.log_probs, dtype=np.float32),
        routed_experts=draft.routing(),
        reward=label.reward,
        outcome=label.outcome,
        weight_versions=tuple(draft.weight_versions),
        stop=label.stop,
        audit=draft.audit(),
    )
