"""Assembling a 33k-token, 30-turn trajectory with 48 layers × top-8 routing, against the bare decode in the same run.

    python tests/perf/trajectory_assembly.py [--stream 512]

What each reply contains: the ids and log-probs it sampled, and base64 int32 routing rows of its whole prompt and reply
(SGLang sends no less), of which only those after the previous reply's are new. "Rows kept" are the new ones;
"superseded" ones came again with a later reply and are never decoded. Replies are made outside the measured time.

Reference: one strict pybase64 decode of the rows kept (as one text), plus one copy of the decoded int32. Times are CPU
seconds of the thread, page faults included, so that a busy machine does not blur them.
Exit code 1 when a bound is missed: time at most 1.5 × the reference, memory above the replies at most 1.3 × the rows
kept as they are stored (uint8, the harder reading; int32 is four times that), and a stream that stays flat.
"""

from __future__ import annotations

import argparse
import gc
import resource
import statistics
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import pybase64

from t1cli.terminal.trajectory.assemble import Assembler, RowLabel
from t1cli.terminal.trajectory.routing import RoutingCapture, RoutingShape
from t1cli.terminal.trajectory.row import TrainingRow, Turn

TOKENS, TURNS, SAMPLED = 33_000, 30, 400
SHAPE = RoutingShape(layers=48, top_k=8, experts=256)
CHARS_PER_ROW = SHAPE.per_token * 4 // 3 * 4
LABEL = RowLabel(trial_id="trial", group_id=0, task="task", family="family", reward=1.0)
MIB = 2**20


@dataclass(frozen=True)
class Source:
    """What replies are cut from."""

    ids: tuple[int, ...]
    log_probs: tuple[float, ...]
    payload: str
    """(TOKENS - 1) rows."""


def source() -> Source:
    """Random ids and routes; the same in every run."""
    random = np.random.default_rng(0)
    routes = random.integers(0, SHAPE.experts, size=(TOKENS - 1, SHAPE.per_token), dtype=np.int32)
    ids = tuple(int(token) for token in random.integers(0, 248_000, size=TOKENS))
    return Source(ids, tuple(float(p) for p in -random.random(TOKENS)), pybase64.b64encode(routes.tobytes()).decode())


def turns(of: Source) -> Iterator[Turn]:
    """One trial's replies, made one by one; ids are new objects each time, as a JSON reader makes them."""
    for number in range(TURNS):
        end = TOKENS * (number + 1) // TURNS
        prompt = end - SAMPLED
        yield Turn(
            prompt_ids=tuple(token + 0 for token in of.ids[:prompt]),
            sampled_ids=of.ids[prompt:end],
            log_probs=of.log_probs[prompt:end],
            routed_experts=RoutingCapture(of.payload[: (end - 1) * CHARS_PER_ROW], rows=end - 1, shape=SHAPE),
            text="",
            finish_reason="stop",
            weight_version=1,
        )


def assembled(of: Source) -> tuple[float, TrainingRow]:
    """Seconds of assembly, and the row."""
    assembler, seconds = Assembler(trial_id="trial", routing="required"), 0.0
    for turn in turns(of):
        seconds += _timed(lambda turn=turn: assembler.add(turn))  # type: ignore[misc]
    found: list[TrainingRow] = []
    seconds += _timed(lambda: found.extend(assembler.rows(LABEL)))
    return seconds, found[0]


def reference(of: Source) -> float:
    """Seconds of the bare decode of the rows kept, plus one copy."""
    return _timed(lambda: bytearray(pybase64.b64decode(of.payload, validate=True)))


def _timed(work: Callable[[], object]) -> float:
    started = time.thread_time()
    work()
    return time.thread_time() - started


def compared(of: Source, repeats: int) -> tuple[float, float]:
    """Best seconds of assembly and of the reference, measured in turns."""
    pairs = [(assembled(of)[0], reference(of)) for _ in range(repeats)]
    return min(mine for mine, _ in pairs), min(bare for _, bare in pairs)


def peak_above_replies(of: Source) -> int:
    """Bytes that assembly holds at its peak beyond the reply handed in, every reply being dropped after its turn."""
    assembler, peak = Assembler(trial_id="trial", routing="required"), 0
    tracemalloc.start()
    held = 0
    for turn in turns(of):
        with_reply = tracemalloc.get_traced_memory()[0]
        tracemalloc.reset_peak()
        assembler.add(turn)
        after, highest = tracemalloc.get_traced_memory()
        peak, held = max(peak, held + highest - with_reply), held + after - with_reply
        del turn
    tracemalloc.reset_peak()
    before = tracemalloc.get_traced_memory()[0]
    rows = assembler.rows(LABEL)
    peak = max(peak, held + tracemalloc.get_traced_memory()[1] - before)
    tracemalloc.stop()
    assert rows[0].routed_experts is not None and len(rows[0].routed_experts) == TOKENS - 1
    return peak


def stream(of: Source, count: int) -> tuple[float, float, float]:
    """Resident MiB after the first tenth and at the end of a stream of trajectories, and their median seconds."""
    seconds, early = [], 0.0
    for number in range(count):
        seconds.append(assembled(of)[0])
        gc.collect(0)
        if number == max(1, count // 10):
            early = _resident_mib()
    return early, _resident_mib(), statistics.median(seconds)


def _resident_mib() -> float:
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * resource.getpagesize() / MIB


def main() -> int:
    """Print every figure, and whether it is within its bound."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--stream", type=int, default=512, help="trajectories in the stream")
    parser.add_argument("--repeats", type=int, default=7, help="measurements of each")
    options = parser.parse_args()
    of = source()
    kept, sent = TOKENS - 1, sum(TOKENS * (n + 1) // TURNS - 1 for n in range(TURNS))
    stored = kept * SHAPE.per_token * SHAPE.dtype.itemsize
    mine, bare = compared(of, options.repeats)
    peak = peak_above_replies(of)
    early, late, median = stream(of, options.stream)
    print(f"{TOKENS} tokens, {TURNS} turns, {SHAPE.layers} × {SHAPE.top_k} experts per token")
    print(f"rows      {sent} sent, {kept} kept, {sent - kept} superseded")
    print(
        f"payload   {len(of.payload) / MIB:.1f} MiB base64 of the rows kept, {stored / MIB:.1f} MiB as they are stored"
    )
    print(f"time      {mine * 1e3:.1f} ms, reference {bare * 1e3:.1f} ms: {mine / bare:.2f} × (bound 1.5)")
    print(f"memory    {peak / MIB:.1f} MiB above the replies: {peak / stored:.2f} × stored rows (bound 1.3)")
    print(f"stream    {options.stream} trajectories, median {median * 1e3:.1f} ms each")
    print(f"          resident {early:.0f} MiB after the first tenth, {late:.0f} MiB at the end (bound 1.05 ×)")
    return int(mine > 1.5 * bare or peak > 1.3 * stored or late > 1.05 * early)


if __name__ == "__main__":
    sys.exit(main())
