"""Versions that a campaign on slime was tested with, and what follows from being elsewhere.

Source: slime 0.3.0 (github.com/THUDM/slime at v0.3.0), docker/Dockerfile, build_conda.sh and requirements.txt.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Tested:
    """One package."""

    version: str
    """Tested, or the least for `least`."""
    rule: Literal["exact", "least", "major", "below"]
    """`exact`: another version is untested. `least` and `below`: a bound. `major`: another major version breaks."""
    breaks: str = ""
    """What happens outside the rule; empty for untested, which warns."""
    required: bool = True


SLIME = {
    "numpy": Tested(
        "2", "below", "every trainer stops at its start: slime asserts that numpy's version begins with 1."
    ),
    "torch": Tested("2.11.0", "exact"),
    "transformers": Tested("5.6.0", "exact"),
    "sglang": Tested("0.5.12.post1", "exact"),
    "sglang-router": Tested("0.2.3", "least", "the router does not know slime's requests"),
    "transformer-engine": Tested("2.10.0", "exact"),
    "flash-attn": Tested("2.7.4.post1", "exact"),
    "ray": Tested("2.49", "least", "the job server answers differently"),
    "torch-memory-saver": Tested("0.0.9", "least", required=True),
    "httpx": Tested("0.27", "least", "trial workers talk to engines and pools through it"),
}
"""On every node of a campaign on slime."""

EMBEDDED = ("torch", "numpy", "safetensors", "ray", "httpx", "uvicorn", "pytest", "pytest-json-ctrf")

TREES = {
    "megatron": "1dcf0dafa884ad52ffb243625717a3471643e087",
    "slime": "bf14dc21f9500746447f2572d0692e981c4d2a7e",
}
"""Commits tested: Megatron-LM dev of 2026-02-14, and slime v0.3.0."""

SLIME_COMMITS = {"0.3.0": TREES["slime"]}
"""By `engine.version`; another version's commit is not known and only its changed files are told."""


def numbers(version: str) -> tuple[int, ...]:
    """The leading release numbers of a version: `0.5.12.post1` is (0, 5, 12)."""
    return tuple(int(part) for part in re.match(r"[\d.]*", version)[0].split(".") if part)  # type: ignore[index]


def problem_of(name: str, version: str | None, tested: Tested) -> tuple[str, bool] | None:
    """What is wrong with an installed version, and whether it breaks the campaign; None for nothing."""
    if version is None:
        return (f"{name} is not installed", True) if tested.required else None
    if tested.rule == "below" and numbers(version) >= numbers(tested.version):
        return f"{name} {version}, wanted below {tested.version}: {tested.breaks}", True
    if tested.rule == "least" and numbers(version) < numbers(tested.version):
        return (
            f"{name} {version}, wanted {tested.version} or newer: {tested.breaks or 'older ones lack what t1 uses'}",
            True,
        )
    if tested.rule == "exact" and version.split("+")[0] != tested.version:
        return f"{name} {version}, tested with {tested.version}", False
    return None
