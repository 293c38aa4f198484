"""Markdown pages as HTML that opens from a disk: one style, one navigation, links between pages kept."""

from __future__ import annotations

import html
import os
import re
from pathlib import Path
from typing import Final

from markdown_it import MarkdownIt

from docs.site.pages import ROOT, Page, anchor_of

SECTIONS: Final = ("guides", "concepts", "reference", "contributing")
FIRST: Final = (
    "first-campaign",
    "own-tasks",
    "from-a-slime-script",
    "reading-a-plan",
    "watch",
    "writing-rules",
    "running-the-pool",
)
"""Guides that a reader wants in this order; all others follow by name."""

_STYLE: Final = """
:root { color-scheme: light dark; --line: #8885; --soft: #8881; }
body { font: 16px/1.55 system-ui, sans-serif; margin: 0 auto; max-width: 78rem; display: flex; gap: 2rem;
  padding: 1rem; }
nav { flex: 0 0 15rem; font-size: .9rem; } nav ul { list-style: none; padding-left: .6rem; }
main { min-width: 0; flex: 1; } pre, code { background: var(--soft); border-radius: 4px; }
code { overflow-wrap: anywhere; } pre code { overflow-wrap: normal; background: none; }
pre { padding: .7rem; overflow-x: auto; } table { border-collapse: collapse; display: block; overflow-x: auto; }
td, th { border: 1px solid var(--line); padding: .25rem .6rem; vertical-align: top; text-align: left; }
[aria-current] { font-weight: bold; } @media (max-width: 50rem) { body { flex-direction: column; } }
"""
_LINK_TO_PAGE: Final = re.compile(r'(href="(?!\w+:|//)[^"#]*)\.md([#"])')


def build_site(pages: tuple[Page, ...], output: Path) -> list[Path]:
    """Write one HTML file per page below `output`; returns them."""
    written = []
    for page in pages:
        target = place_of(page, output)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(_document(page, pages, output), encoding="utf-8")
        written.append(target)
    return written


def place_of(page: Page, output: Path) -> Path:
    """Where a page goes: as in the checkout, so that relative links hold."""
    return (output / page.path.relative_to(ROOT)).with_suffix(".html")


def title_of(page: Page) -> str:
    """Text of the first heading."""
    for number, token in enumerate(page.tokens):
        if token.type == "heading_open":
            return page.tokens[number + 1].content.replace("`", "")
    return page.path.stem


def _document(page: Page, pages: tuple[Page, ...], output: Path) -> str:
    body = _LINK_TO_PAGE.sub(r"\1.html\2", _body(page))
    return (
        f'<!doctype html>\n<html lang="en">\n<head><meta charset="utf-8">'
        f'<meta name="viewport" content="width=device-width">\n<title>{html.escape(title_of(page))} · t1</title>\n'
        f"<style>{_STYLE}</style></head>\n<body>\n{_navigation(page, pages, output)}\n"
        f"<main>\n{body}</main>\n</body>\n</html>\n"
    )


def _body(page: Page) -> str:
    """The page's own HTML; headings get the anchors that links to them name."""
    renderer = MarkdownIt("commonmark").enable("table")
    tokens = list(page.tokens)
    for number, token in enumerate(tokens):
        if token.type == "heading_open":
            token.attrSet("id", anchor_of(tokens[number + 1].content))
    return str(renderer.renderer.render(tokens, renderer.options, {}))


def _navigation(page: Page, pages: tuple[Page, ...], output: Path) -> str:
    here = place_of(page, output).parent
    parts = [_item(page, other, here, output) for other in pages if other.path.parent == ROOT]
    for section in SECTIONS:
        parts.append(f"<li>{section}<ul>")
        inside = sorted((other for other in pages if other.path.parent.name == section), key=_place)
        parts += [_item(page, other, here, output) for other in inside]
        parts.append("</ul></li>")
    return f'<nav aria-label="pages"><ul>{"".join(parts)}</ul></nav>'


def _place(page: Page) -> tuple[int, str]:
    is_first = page.path.parent.name == "guides" and page.path.stem in FIRST
    return (FIRST.index(page.path.stem) if is_first else len(FIRST)), page.path.stem


def _item(page: Page, other: Page, here: Path, output: Path) -> str:
    href = os.path.relpath(place_of(other, output), here)
    current = ' aria-current="page"' if other is page else ""
    return f'<li><a href="{html.escape(href)}"{current}>{html.escape(title_of(other))}</a></li>'
