"""What can be seen of a task without running it: whether its verifier works offline and always says something."""

from __future__ import annotations

import re
from pathlib import Path

from t1cli.terminal.tasks.problem import Problem

_NETWORK = re.compile(
    r"^(?!\s*#).*?\b(uvx|uv pip|pip3? install|apt-get|apt install|curl|wget|git clone|npm install)\b", re.M
)
_ERREXIT = re.compile(r"^\s*set\s+-\w*e|^\s*set\s+-o\s+errexit", re.M)
_RUN = re.compile(r"\bpytest\b|\bpython3?\b")
_REWARD = re.compile(r"reward\.(txt|json)")
_MKDIR = re.compile(r"mkdir\b")
_TRAP = re.compile(r"^\s*trap\b", re.M)


def static_problems(test_script: Path, *, network: bool) -> tuple[Problem, ...]:
    """Problems of a `tests/test.sh` as text; `network` says whether verifiers may reach one."""
    try:
        text = test_script.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        return (Problem("layout", f"{test_script}: {error}"),)
    found: list[Problem] = []
    online = _NETWORK.search(text)
    if online is not None and not network:
        found.append(Problem("verifier-online", f"test.sh calls {online[1]}, and verifiers have no network"))
    reward, run, errexit = _REWARD.search(text), _RUN.search(text), _ERREXIT.search(text)
    if reward is None:
        found.append(Problem("reward-line", "test.sh never writes reward.txt or reward.json"))
    elif errexit and run and errexit.start() < run.start() < reward.start() and not _TRAP.search(text):
        message = "set -e ends test.sh at the first failed test, before the reward line"
        if not _guarded(text, run.start()):
            found.append(Problem("reward-line", message))
    if reward is not None and not _MKDIR.search(text):
        found.append(Problem("log-directory", "test.sh does not make its log directory", fatal=False))
    return tuple(found)


def _guarded(text: str, run: int) -> bool:
    """Whether the run stands in a condition, where set -e does not end the script."""
    line = text[text.rfind("\n", 0, run) + 1 : (text + "\n").find("\n", run)]
    return bool(re.search(r"^\s*(if|while|until|!)\b|\|\||&&", line))
