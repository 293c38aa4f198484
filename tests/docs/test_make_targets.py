"""Every `make X` that a page names is a target of the Makefile, and every target is one that a file cannot shadow."""

from __future__ import annotations

import re

from docs.site.pages import ROOT, pages

MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
TARGETS = set(re.findall(r"^([a-z][a-z-]*):(?!=)", MAKEFILE, re.M))
_NAMED = re.compile(r"(?:`|^ *)make((?: [a-z][a-z-]*)+)(?=`| [A-Z]+=| +#|$)", re.M)


def named_in(text: str) -> set[str]:
    """Targets that a text tells to make, in a code span, on a line of a code block or of a script."""
    return {name for found in _NAMED.findall(text) for name in found.split()}


def test_every_target_that_a_page_names_is_there() -> None:
    texts = {page.name: page.path.read_text(encoding="utf-8") for page in pages()}
    texts |= {name: (ROOT / name).read_text(encoding="utf-8") for name in ("CONTRIBUTING.md", ".ci/run")}
    assert {name: sorted(missing) for name, text in texts.items() if (missing := named_in(text) - TARGETS)} == {}
    assert {"quickstart", "test", "bench", "verify-replay"} <= {
        name for text in texts.values() for name in named_in(text)
    }


def test_no_file_can_stand_for_a_target() -> None:
    phony = MAKEFILE.replace("\\\n", " ").partition(".PHONY:")[2].partition("\n")[0].split()
    assert set(phony) == TARGETS


def test_targets_of_every_kind_of_sentence_are_seen() -> None:
    text = "`make lint types` and\n    make verify-slime SLIME=PATH\nmake bench # now\nto make sure, `make verify-…`\n"
    assert named_in(text) == {"lint", "types", "verify-slime", "bench"}
