"""One row while its turns arrive: ids, mask, log-probs and routing only ever grow together.

Row and history part after a repair: the row keeps what was sampled, the history is what the engine saw, the harness's
copy included, and what the next prompt is compared with.

Routing at a repaired end. Position b, the row's last id, was sampled but not read yet when its turn ended: its row is
in the next turn's capture, where the prompt has an id in its place. If that is the same id, its row is taken. If it is
another, no turn has captured position b, and a neighbour's row may stand in for it only where no gradient can be
affected. The routing of position b acts on the hidden state there. That state gives the logits of token b + 1 (the
next-token loss), and every later position reads it (attention keys and values, recurrent state). So it is out of every
gradient exactly when no token after b carries loss.
"""

from __future__ import annotations

import zlib
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from t1cli.terminal.trajectory.audit import drifted_in_loss
from t1cli.terminal.trajectory.blame import ReplySpan
from t1cli.terminal.trajectory.relations import History, Match
from t1cli.terminal.trajectory.routing import IndexType, RoutingCapture, WrongRouting, append_rows, as_rows
from t1cli.terminal.trajectory.row import Audit, Ids, RoutingRows, Turn, TurnRecord


@dataclass(frozen=True)
class Placement:
    """Where a turn goes and why."""

    turn: int
    match: Match
    rule: str = ""
    tied: bool = False
    reply_pieces: Sequence[str] | None = None
    """What the turn's sampled ids say by its generation-time offset map."""


@dataclass(frozen=True)
class RoutingForm:
    """What one token's routing looks like; a capture is not kept for it."""

    layers: int
    top_k: int
    dtype: IndexType

    @property
    def row_bytes(self) -> int:
        """Bytes of one token's routing."""
        return self.layers * self.top_k * self.dtype.itemsize


@dataclass
class RowDraft:
    """One row of a trial while it grows."""

    replayed: bool
    """Routing must be complete: it is replayed in the trainer."""
    tokens: array[int] = field(default_factory=lambda: array("i"))
    loss_mask: bytearray = field(default_factory=bytearray)
    log_probs: array[float] = field(default_factory=lambda: array("f"))
    records: list[TurnRecord] = field(default_factory=list)
    weight_versions: list[int] = field(default_factory=list)
    response_start: int = 0
    retokenized_tokens: int = 0
    ties: int = 0
    history: History = field(default_factory=lambda: History(np.zeros(0, dtype=np.int32)))
    """What the engine saw and sampled last."""
    reply_spans: list[ReplySpan] = field(default_factory=list)
    """Where the history holds each turn's reply, or what stands for it."""
    _sampled: list[tuple[int, Ids]] = field(default_factory=list)
    _routing: bytearray | None = field(default_factory=bytearray)
    """None once a turn came without routing that is only kept."""
    _routing_form: RoutingForm | None = None
    _placeholders: list[int] = field(default_factory=list)
    """Positions whose routing is a neighbour's."""

    def can_take(self, match: Match, prompt: Ids, sampled: int) -> bool:
        """Whether every position before a loss-carrying token would have captured routing."""
        if not self.replayed or not self.tokens or not _new_ids(match, prompt, sampled):
            return True
        if sampled and self._placeholders:
            return False
        return self._captured_at_end(match, prompt) or (not sampled and bool(self._routing))

    def append(self, turn: Turn, prompt: Ids, sampled: Ids, placement: Placement) -> None:
        """Add a turn: what its prompt has after the history, then what was sampled."""
        match = placement.match
        if _new_ids(match, prompt, len(sampled)):
            self._append_routing(turn.routed_experts, match, prompt)
        if not self.records:
            self.response_start = len(prompt)
        self._note_span(placement, len(prompt), len(prompt) + len(sampled))
        self._extend(prompt[match.stands_for :], None)
        self.records.append(_record(placement, sampled, start=len(self.tokens)))
        self._sampled.append((len(self.tokens), sampled))
        self._extend(sampled, turn.log_probs)
        self.history = History(np.concatenate((prompt, sampled)), placement.reply_pieces)
        self.weight_versions.append(turn.weight_version)
        self.retokenized_tokens += match.retokenized
        self.ties += placement.tied

    def _note_span(self, placement: Placement, start: int, end: int) -> None:
        if self.reply_spans:
            last = self.reply_spans[-1]
            self.reply_spans[-1] = replace(last, end=placement.match.stands_for)
        self.reply_spans.append(ReplySpan(placement.turn, start, end))

    def _extend(self, ids: Ids, log_probs: Sequence[float] | None) -> None:
        self.tokens.frombytes(ids.tobytes())
        self.loss_mask += (b"\0" if log_probs is None else b"\1") * len(ids)
        self.log_probs.extend([0.0] * len(ids) if log_probs is None else log_probs)

    def _append_routing(self, captured: RoutingRows | RoutingCapture | None, match: Match, prompt: Ids) -> None:
        if captured is None or self._routing is None:
            self._routing = None
            return
        if self._routing_form is None:
            _, layers, top_k = captured.shape
            self._routing_form = RoutingForm(layers, top_k, captured.dtype)
        # A position keeps its first capture: later turns read its keys and values from the cache that this one wrote.
        if self._captured_at_end(match, prompt):
            append_rows(self._routing, captured, max(match.stands_for - 1, 0))
        elif self.replayed:
            self._placeholders.append(len(self.tokens) - 1)
            self._routing += self._routing[-self._routing_form.row_bytes :]
            append_rows(self._routing, captured, match.stands_for)
        else:
            self._routing = None

    def _captured_at_end(self, match: Match, prompt: Ids) -> bool:
        """Whether the prompt reads the row's last id where it stands for the history's end."""
        if not self.tokens:
            return True
        return match.stands_for > 0 and int(prompt[match.stands_for - 1]) == self.tokens[-1]

    def routing(self) -> RoutingRows | None:
        """(T - 1, L, K); None when a turn came without. Raises WrongRouting for rows that are not the tokens' own."""
        if self._routing is None or self._routing_form is None:
            return None
        last_trained = self.loss_mask.rfind(1)
        guessed = [position for position in self._placeholders if not no_gradient_at(position, last_trained)]
        if guessed:
            raise WrongRouting(f"no turn captured the routing of positions {guessed}, before tokens that carry loss")
        form = self._routing_form
        rows, rest = divmod(len(self._routing), form.row_bytes)
        if rest or rows != len(self.tokens) - 1:
            raise WrongRouting(f"{rows} routing rows for {len(self.tokens)} tokens, expected one less")
        return as_rows(self._routing, form.layers, form.top_k, form.dtype)

    def audit(self) -> Audit:
        """The row's counters, drift recounted from the ids as they arrived."""
        loss_mask = np.frombuffer(self.loss_mask, dtype=np.uint8)
        return Audit(
            turns=len(self.records),
            strict=sum(record.relation == "strict" for record in self.records),
            sampled_tokens=sum(record.sampled for record in self.records),
            trained_tokens=int(np.count_nonzero(loss_mask)),
            drifted_in_loss=drifted_in_loss(np.frombuffer(self.tokens, dtype=np.int32), loss_mask, self._sampled),
            records=tuple(self.records),
            retokenized_tokens=self.retokenized_tokens,
            placeholder_rows=len(self._placeholders),
            ties=self.ties,
        )


def _new_ids(match: Match, prompt: Ids, sampled: int) -> int:
    """Ids that a turn adds to the row."""
    return len(prompt) - match.stands_for + sampled


def no_gradient_at(position: int, last_trained: int) -> bool:
    """Whether the routing of a position is out of every gradient: no token after it carries loss (catalogue F5)."""
    return position >= last_trained


def _record(placement: Placement, sampled: Ids, *, start: int) -> TurnRecord:
    match = placement.match
    return TurnRecord(
        turn=placement.turn,
        relation=match.relation,
        start=start,
        sampled=len(sampled),
        checksum=checksum(sampled),
        rule=placement.rule,
        cell=match.cell,
        retokenized=match.retokenized,
    )


def checksum(ids: Ids) -> int:
    """CRC-32 of ids as little-endian int32."""
    return zlib.crc32(np.ascontiguousarray(ids, dtype="<i4").tobytes())
