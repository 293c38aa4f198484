"""The test.sh of generated tasks, and the same run described for a sandbox that has pytest imported already."""

from __future__ import annotations

from pathlib import Path

from t1cli.terminal.sandbox.warm_pytest import PytestJob

_LOGS = "/logs/verifier"
# No capture: pytest would need a temporary file for it, and the agent may have filled the disk.
_FLAGS = (
    *("-q", "-s", "-rA", "-c", "/dev/null", "--rootdir=.", "--assert=plain", "--tb=line"),
    *("-p", "no:cacheprovider", "-p", "ctrf.main"),
)
_TESTS = "test_outputs.py"

TEST_SH = f"""\
#!/bin/sh
# T1_ROOT and T1_PYTHON are empty in a container; a local sandbox says where its root and interpreter are.
logs="${{T1_ROOT:-}}{_LOGS}"
mkdir -p "$logs"
cd "${{T1_ROOT:-}}/tests" || exit 1
export PYTEST_DISABLE_PLUGIN_AUTOLOAD=1
"${{T1_PYTHON:-python3}}" -I -B -m pytest {" ".join(_FLAGS)} \\
    --ctrf "$logs/ctrf.json" {_TESTS}
code=$?
# Any other status means that the verifier broke: no reward line, so that nobody reads it as a failed task.
if [ "$code" -eq 0 ]; then echo 1 > "$logs/reward.txt"; elif [ "$code" -eq 1 ]; then echo 0 > "$logs/reward.txt"; fi
exit "$code"
"""


def warm_job(tests: Path) -> PytestJob | None:
    """What this test.sh does, as a job, when it is byte for byte the generated one; None for any other script."""
    try:
        ours = (tests / "test.sh").read_bytes() == TEST_SH.encode()
    except OSError:
        return None
    arguments = (*_FLAGS, "--ctrf", f"{_LOGS}/ctrf.json", _TESTS)
    return PytestJob(arguments, "/tests", f"{_LOGS}/reward.txt") if ours else None
