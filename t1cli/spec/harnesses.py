"""The agent loops that `rollout.harness` can name: the built-in one, names of t1's own, or a function of the user's."""

from __future__ import annotations

import re
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Final

BUILTIN: Final = "builtin"
TERMINUS: Final = "terminus-2"
NAMED: Final[Mapping[str, str]] = {TERMINUS: "t1cli.terminal.harness.terminus:play"}
"""Name to the text harness behind it, as `module:function`."""
WRITTEN: Final = "`builtin`, or `package.module:function` of an async function of your own"

_PATH: Final = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*")


def text_harness_path(harness: str) -> str | None:
    """`module:function` of the text harness that trials run; None when they run the built-in loop."""
    return NAMED.get(harness, harness) if harness != BUILTIN else None


def lacks_harbor(harness: str, sandbox_kind: str) -> str:
    """Why a harness cannot play in this kind of sandbox; empty when it can."""
    if harness != TERMINUS or sandbox_kind == "harbor":
        return ""
    return f"{harness} is Harbor's own and works in Harbor's environments, sandbox.kind is {sandbox_kind}"


def names_a_harness(harness: str) -> bool:
    """Whether the text is a known name, or at least written like `package.module:function`."""
    return harness == BUILTIN or harness in NAMED or _PATH.fullmatch(harness) is not None


def near_names(harness: str) -> str:
    """A question with the name that was probably meant; empty when none is near."""
    found = get_close_matches(harness, [BUILTIN, *NAMED], n=1, cutoff=0.6)
    return f"did you mean `{found[0]}`?" if found else ""
