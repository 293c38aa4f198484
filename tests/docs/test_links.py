"""Links inside the checkout hold: the file is there, and the heading too."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

from docs.site.pages import ROOT, Page, anchor_of, pages, read_page

CAMPAIGNS = [read_page(path) for path in sorted((ROOT / "experiments").glob("*/README.md"))]


@pytest.mark.parametrize("page", [*pages(), *CAMPAIGNS], ids=lambda page: page.name)
def test_links_hold(page: Page) -> None:
    assert [f"{page.name}:{line}: {target}" for line, target in page.links() if not holds(page, target)] == []


def holds(page: Page, target: str) -> bool:
    """Whether a link leads somewhere; addresses of other sites are not asked."""
    if re.match(r"(https?|mailto):", target):
        return True
    name, _, anchor = target.partition("#")
    path = (page.path.parent / name).resolve() if name else page.path
    if not path.exists() or not path.is_relative_to(ROOT):
        return False
    return not anchor or (path.suffix == ".md" and anchor in anchors_in(path))


@cache
def anchors_in(path: Path) -> set[str]:
    return read_page(path).anchors()


@pytest.mark.parametrize(
    ("heading", "anchor"),
    [("Exit codes", "exit-codes"), ("`t1 plan`: what it says", "t1-plan-what-it-says"), ("A & B", "a--b")],
)
def test_anchors_are_github_s(heading: str, anchor: str) -> None:
    assert anchor_of(heading) == anchor
