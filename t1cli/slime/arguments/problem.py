"""What is wrong with an argument list, and the shape of a rule that finds it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

from t1cli.slime.arguments.read import Arguments

Severity = Literal["error", "warning", "notice"]


@dataclass(frozen=True)
class Problem:
    """Something slime would raise on, change or drop, or that would fail later."""

    id: str
    """Catalogue ID such as `C2`, else `T-` and a name; `--accept` takes it."""
    severity: Severity
    """`error`: the job would die or train something else. `warning`: a value is changed or ignored. `notice`: said."""
    flag: str
    """The flag to look at."""
    message: str
    fix: str


Says = str | Callable[[Arguments], str]


@dataclass(frozen=True)
class Rule:
    """One row of a rule table."""

    id: str
    severity: Severity
    flag: str
    when: Callable[[Arguments], bool]
    says: Says
    fix: Says

    def problems(self, arguments: Arguments) -> Iterator[Problem]:
        """The problem, if the rule applies; a rule about an argument that this version lacks never does."""
        if self.when(arguments):
            says = self.says if isinstance(self.says, str) else self.says(arguments)
            fix = self.fix if isinstance(self.fix, str) else self.fix(arguments)
            yield Problem(self.id, self.severity, self.flag, says, fix)
