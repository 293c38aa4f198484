"""Names of the tests that did not pass, from the report that grading has kept."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

SHOWN: Final = 3
_REASON: Final = 160
"""Characters of the reason that is quoted."""


def failed_tests(trial_dir: Path) -> tuple[str, ...]:
    """Each failed test with its reason, as `test_order (AssertionError: …)`; empty without a usable report."""
    try:
        found = json.loads((trial_dir / "verifier" / "ctrf.json").read_bytes())
        tests = found.get("results", found)["tests"]
        return tuple(_told(test) for test in tests if test.get("status") not in ("passed", "skipped"))
    except (OSError, ValueError, RecursionError, LookupError, AttributeError, TypeError):
        return ()


def named(failed: tuple[str, ...]) -> str:
    """The first few in one phrase, and how many more there are; empty without any."""
    more = f" and {len(failed) - SHOWN} more" if len(failed) > SHOWN else ""
    return ", ".join(failed[:SHOWN]) + more


def _told(test: dict[str, Any]) -> str:
    name = str(test.get("name", "?")).rsplit("::", 1)[-1]
    said = str(test.get("message") or test.get("trace") or "").strip().splitlines()
    return f"{name} ({said[-1].strip()[:_REASON]})" if said else name
