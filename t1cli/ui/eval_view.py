"""What `t1 eval` answers as text."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

from t1cli.launch.evaluation import EvaluationAnswer
from t1cli.launch.proposal import Proposal
from t1cli.run.record import RunRecord
from t1cli.ui.console import answer, aside


def print_evaluation(found: EvaluationAnswer) -> None:
    """Counts first: a mean says nothing without them."""
    console = answer()
    mark = "✓" if found.complete else "✗"
    console.print(f"{mark} {found.name}   {found.solved} solved / {found.scored} scored / {found.scheduled} scheduled")
    if found.solved_rate is None:
        return
    interval = "" if found.interval is None else f"   95 % {found.interval[0]:.3f} to {found.interval[1]:.3f}"
    spread = "" if found.spread is None else f"   spread over repeats {found.spread:.3f}"
    console.print(f"  solved rate {found.solved_rate:.3f}{interval}{spread}")
    console.print(f"  mean reward {found.mean_reward:.3f}   {found.checkpoint}")


def print_command(found: Mapping[str, Any]) -> None:
    """The command, what it needs around it, and why it would not start."""
    console = answer()
    console.print(f"argv  {shlex.join(['python3', *found['argv']])}", soft_wrap=True)
    for name, value in found["env"].items():
        console.print(f"env   {name}={value}", soft_wrap=True)
    for refusal in found["refusals"]:
        console.print(f"✗ {refusal['id']}: {refusal['message']}")
        console.print(f"  fix: {refusal['fix']}")


class EvaluationDialogue:
    """All that is said on the way goes to stderr; stdout holds the answer alone."""

    def can_ask(self) -> bool:
        """Asking for an evaluation is the yes."""
        return True

    def ask(self, proposal: Proposal) -> bool:
        """Never asked."""
        return True

    def started(self, record: RunRecord) -> None:
        """Where it runs."""
        aside().print(f"run {record.run_dir}   {record.engine} {record.job_id}")

    def progress(self, line: str) -> None:
        """One line."""
        aside().print(line)
