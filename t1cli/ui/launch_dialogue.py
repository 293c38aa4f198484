"""A launch's conversation: with a person at a terminal, or with a script that reads JSON."""

from __future__ import annotations

import sys
from collections import Counter
from typing import Final

from t1cli.launch.proposal import Proposal
from t1cli.run.record import RunRecord
from t1cli.run.rollout_number import rollout_number
from t1cli.ui.console import answer, aside
from t1cli.ui.json_view import print_object
from t1cli.ui.launch_view import print_started, started_object

_CHANGES_SHOWN: Final = 8


class TextDialogue:
    """Asks on stderr, so that stdout holds the answer alone."""

    def __init__(self, *, detached: bool) -> None:
        self._detached = detached
        self.run_dir: str | None = None
        """Directory of the run once it has started."""

    def can_ask(self) -> bool:
        """Whether there is a terminal on both sides."""
        return sys.stdin.isatty() and sys.stderr.isatty()

    def ask(self, proposal: Proposal) -> bool:
        """Show what would start and read yes or no; anything but yes is no."""
        _print_proposal(proposal)
        aside().print("Start it? [y/N] ", end="")
        sys.stderr.flush()
        return sys.stdin.readline().strip().lower() in ("y", "yes")

    def started(self, record: RunRecord) -> None:
        """The run directory, at once."""
        self.run_dir = record.run_dir
        print_started(record, detached=self._detached)
        answer().file.flush()

    def progress(self, line: str) -> None:
        """One line on stderr."""
        aside().print(line)


class JsonDialogue:
    """One object on stdout as soon as the run has started; the campaign's lines go to stderr."""

    def can_ask(self) -> bool:
        """A script says --yes."""
        return False

    def ask(self, proposal: Proposal) -> bool:
        """Never asked."""
        return False

    def started(self, record: RunRecord) -> None:
        """The one object."""
        print_object(started_object(record))

    def progress(self, line: str) -> None:
        """One line on stderr."""
        aside().print(line)


def _print_changes(proposal: Proposal) -> None:
    shown = list(proposal.changes.items())[:_CHANGES_SHOWN]
    if shown:
        aside().print(f"~ {len(proposal.changes)} values differ from the latest attempt")
    for key, (old, new) in shown:
        aside().print(f"    {key}  {old} → {new}")
    if len(proposal.changes) > len(shown):
        aside().print(f"    and {len(proposal.changes) - len(shown)} more")


def _print_proposal(proposal: Proposal) -> None:
    console = aside()
    severities = Counter(finding.severity for finding in proposal.plan.findings)
    checks = Counter(check.status for check in proposal.preflight.checks)
    console.print(f"plan       {proposal.plan.verdict}, {severities['warning']} warnings")
    console.print("preflight  " + ", ".join(f"{count} {status}" for status, count in sorted(checks.items())))
    if proposal.accepted:
        console.print(f"accepted   {', '.join(proposal.accepted)}")
    console.print(f"run        {proposal.run.path} on the {proposal.engine} engine")
    _print_changes(proposal)
    if proposal.resumes_from_rollout is not None:
        console.print(f"resumes    at rollout {rollout_number(proposal.resumes_from_rollout)}")
