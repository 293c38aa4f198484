"""docs/ builds, its generated pages are current, and every room of the code has its page."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from docs.site.generated import PAGES, REFERENCE
from docs.site.html import SECTIONS, build_site, place_of
from docs.site.pages import ROOT, Page, pages


# The others have their test beside what they are generated from.
@pytest.mark.parametrize("name", ["checks.md", "cli.md", "exit-codes.md"])
def test_a_generated_page_is_current(name: str) -> None:
    assert (REFERENCE / name).read_text(encoding="utf-8") == PAGES[name](), "run: make docs"


class References(HTMLParser):
    """Collects what a document links to, what it can be linked by, and checks that its tags close."""

    def __init__(self) -> None:
        super().__init__()
        self.hrefs: list[str] = []
        self.ids: set[str] = set()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.hrefs += [found["href"] or ""] if "href" in found else []
        self.ids |= {found["id"] or ""} if "id" in found else set()
        if tag not in ("meta", "br", "hr", "img", "link"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open and self.open.pop() == tag, f"</{tag}> closes nothing"


def read(path: Path) -> References:
    found = References()
    found.feed(path.read_text(encoding="utf-8"))
    assert found.open == [], path
    return found


def test_the_site_builds_and_its_links_stay_inside_it(tmp_path: Path) -> None:
    written = build_site(pages(), tmp_path)
    documents = {path: read(path) for path in written}
    assert set(documents) == {place_of(page, tmp_path) for page in pages()}
    broken = []
    for path, document in documents.items():
        for href in document.hrefs:
            name, _, anchor = href.partition("#")
            target = (path.parent / name).resolve() if name else path
            if re.match(r"\w+:", href) or target.suffix != ".html":
                continue
            if target not in documents or (anchor and anchor not in documents[target].ids):
                broken.append(f"{path.relative_to(tmp_path)}: {href}")
    assert broken == []


def test_every_page_stands_in_a_section_and_begins_with_a_heading() -> None:
    for page in pages():
        parts = page.path.relative_to(ROOT).parts
        assert parts[0] != "docs" or (len(parts) == 3 and parts[1] in SECTIONS), page.name
        assert page.tokens[0].type == "heading_open" and page.tokens[0].tag == "h1", page.name


def test_every_room_has_its_page_for_contributors() -> None:
    rooms = {path.name for path in (ROOT / "t1cli").iterdir() if (path / "__init__.py").is_file()} | {"memory_model"}
    there = {page.path.stem for page in pages() if page.path.parent.name == "contributing"}
    assert {room.replace("_", "-") for room in rooms} <= there


CONTRIBUTING = [page for page in pages() if page.path.parent.name == "contributing"]


@pytest.mark.parametrize("page", CONTRIBUTING, ids=lambda page: page.name)
def test_files_that_a_contributors_page_names_exist(page: Page) -> None:
    text = page.path.read_text(encoding="utf-8")
    named = set(re.findall(r"`((?:t1cli|memory_model|presets|tests|docs|experiments)/[\w./*-]*)`", text))
    assert [name for name in sorted(named) if not list(ROOT.glob(name.rstrip("/")))] == []
