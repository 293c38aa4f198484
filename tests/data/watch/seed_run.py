"""Rebuilds the postmortem's 45-hour run as a metric history from the numbers that it prints.

What is known and used: the 30-step buckets of steps 271-420, the first-20 and last-20 means, the means at the end of
each phase, the clock of five steps, the reward range by phase, the sample counts. What is not known is filled in as
plainly as possible: a bucket is flat, everything else is a straight line between known points, and noise is Gaussian
with a fixed seed, small enough that a 30-step mean keeps two digits. Run as a script to write the CSV.
"""

from __future__ import annotations

import csv
import json
import random
import sys
from bisect import bisect_right
from pathlib import Path

SOURCE = Path(__file__).parent / "seed-run-metrics.json"
LAST_STEP = 1095
RUNTIME_SECONDS = 161_973

# (step, value): straight lines in between. Flat stretches have two points.
NON_TRAINABLE = [(0, 0.346), (20, 0.346), (115, 0.42), (200, 0.45), (270, 0.47)]
NON_TRAINABLE_AFTER = [(421, 0.80), (600, 0.86), (800, 0.90), (1000, 0.91), (1075, 0.92), (1095, 0.92)]
REPLY_TOKENS = [(0, 97), (20, 97), (30, 150), (200, 130), (270, 140)]
REPLY_TOKENS_AFTER = [(421, 41), (600, 36), (1000, 22), (1060, 8), (1095, 7)]
# The phases' last-10 means, put at their hours: by the printed clock 8 h are step 140, 25 h step 435, 40 h step 890.
GRAD_NORM = [(0, 0.8465), (20, 0.8465), (26, 1.5), (140, 1.0), (360, 0.5), (435, 0.45), (500, 0.12), (890, 0.05),
             (950, 0.0083), (1095, 0.0083)]  # fmt: skip
KL_LOSS = [(0, 0.01), (20, 0.012), (30, 0.15), (120, 0.27), (200, 0.2), (600, 0.12), (1000, 0.08), (1095, 0.0726)]
ENTROPY = [(0, 0.0638), (20, 0.0638), (200, 0.12), (600, 0.11), (1095, 0.0659)]
ACCURACY = [(0, 0.15), (20, 0.29), (120, 0.42), (180, 0.45), (270, 0.38)]
ACCURACY_AFTER = [(421, 0.34), (600, 0.32), (1000, 0.27), (1095, 0.2764)]
RAW_REWARD = [(0, -0.65), (20, -0.1), (60, 0.05), (200, 0.05), (270, -0.02)]
RAW_REWARD_AFTER = [(421, -0.4), (600, -0.35), (1000, -0.45), (1095, -0.49)]
REWARD_RANGE = [(0, 1.77), (30, 1.77), (200, 1.84), (201, 1.6), (600, 1.1), (601, 0.8), (1000, 0.15), (1095, 0.13)]


def build(seed: int = 3) -> list[dict[str, float]]:
    """One dict a step: `step`, `_runtime` (seconds) and the run's metrics."""
    facts = json.loads(SOURCE.read_text(encoding="utf-8"))
    columns, rows = facts["buckets_30step"]["columns"], facts["buckets_30step"]["rows"]
    buckets = [dict(zip(columns, row, strict=True)) for row in rows]
    clock = [(0, 0.0), *((row[0], row[2]) for row in facts["step_clock"]["rows"]), (LAST_STEP, RUNTIME_SECONDS)]
    noise = random.Random(seed)
    return [_row(step, buckets, clock, noise) for step in range(LAST_STEP + 1)]


def _row(
    step: int, buckets: list[dict[str, float]], clock: list[tuple[int, float]], noise: random.Random
) -> dict[str, float]:
    def known(name: str, before: list[tuple[int, float]], after: list[tuple[int, float]]) -> float:
        bucket = next((b for b in buckets if b["step_from"] <= step <= b["step_to"]), None)
        return bucket[name] if bucket else line(before if step < 271 else after, step)

    lost = known("non_trainable", NON_TRAINABLE, NON_TRAINABLE_AFTER) + noise.gauss(0, 0.02)
    lost = min(1.0, max(0.2353, lost))
    trainable = round(136 * (1 - lost))
    accuracy = known("accuracy", ACCURACY, ACCURACY_AFTER)
    accuracy = min(1.0, max(0.0, accuracy + noise.gauss(0, 0.5 / max(1, trainable) ** 0.5)))
    spread = max(0.0, line(REWARD_RANGE, step) + noise.gauss(0, 0.05))
    reward = 2 * accuracy - 1
    row = {
        "step": step,
        "_runtime": round(line(clock, step), 1),
        "terminal/non_trainable_ratio": round(lost, 4),
        "terminal/total_samples": 136,
        "terminal/reward_max": round(min(1.0, reward + spread / 2), 4),
        "terminal/reward_min": round(max(-1.0, min(1.0, reward + spread / 2) - spread), 4),
        "rollout/raw_reward": round(known("raw_reward", RAW_REWARD, RAW_REWARD_AFTER) + noise.gauss(0, 0.08), 4),
        "rollout/response_len/mean": round(
            max(1.15, known("response_len", REPLY_TOKENS, REPLY_TOKENS_AFTER) * (1 + noise.gauss(0, 0.1))), 2
        ),
        "train/grad_norm": round(max(0.0, line(GRAD_NORM, step) * (1 + noise.gauss(0, 0.2))), 4),
        "train/kl_loss": round(max(0.0, line(KL_LOSS, step) * (1 + noise.gauss(0, 0.2))), 4),
        "train/entropy_loss": round(max(0.0, line(ENTROPY, step) * (1 + noise.gauss(0, 0.1))), 4),
    }
    if trainable:  # accuracy and reward_mean are logged only when there is something to average
        row |= {"terminal/accuracy": round(accuracy, 4), "terminal/reward_mean": round(reward, 4)}
    return row


def line(points: list[tuple[int, float]], step: int) -> float:
    """Straight between the points, flat outside."""
    place = bisect_right([at for at, _ in points], step)
    if place in (0, len(points)):
        return float(points[0][1] if place == 0 else points[-1][1])
    (x0, y0), (x1, y1) = points[place - 1], points[place]
    return float(y0 + (y1 - y0) * (step - x0) / (x1 - x0))


def write(path: Path, seed: int = 3) -> None:
    """The history as CSV."""
    rows = build(seed)
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, fieldnames=list(rows[100]))
        writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    write(Path(sys.argv[1]))
