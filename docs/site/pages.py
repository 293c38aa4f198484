"""Pages of the documentation: code blocks with their directive, commands, links and anchors.

A block of commands is run by tests/docs/test_commands.py in its page's own folder, unless the comment right above it
says otherwise:

    <!-- run: exit 1; output varies -->       how it ends, and that the output shown is not to be compared
    <!-- not run: why -->                     with the reason why it cannot be
    <!-- tested by: tests/path.py::test -->   another test runs it
    <!-- file: path -->                       the block is the content of this file, which later commands find
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Literal, cast

from markdown_it import MarkdownIt
from markdown_it.token import Token

from t1cli.spec.locate import data_root

ROOT = data_root()
SHELLS = ("console", "bash", "sh", "shell")

_DIRECTIVE = re.compile(r"<!--\s*(run|not run|tested by|file)(?::\s*(.*?))?\s*-->\s*", re.DOTALL)
_INLINE_ID = re.compile(r'<a id="([^"]+)">')

Mode = Literal["run", "not run", "tested by", "file"]


@dataclass(frozen=True)
class Command:
    """One command and the output that the page shows for it."""

    line: int
    text: str
    shown: tuple[str, ...] = ()


@dataclass(frozen=True)
class CodeBlock:
    """A fenced block."""

    page: str
    line: int
    language: str
    content: str
    mode: Mode = "run"
    value: str = ""
    """What the directive says after its colon."""

    @property
    def has_commands(self) -> bool:
        return self.language in SHELLS or any(line.startswith("$ ") for line in self.content.splitlines())

    def commands(self) -> tuple[Command, ...]:
        """Commands in order; with a prompt, what stands below them is their output."""
        return tuple(_prompted(self) if "$ " in self.content else _plain(self))


@dataclass(frozen=True)
class Page:
    """One Markdown file."""

    path: Path
    tokens: tuple[Token, ...] = field(repr=False)

    @property
    def name(self) -> str:
        return self.path.relative_to(ROOT).as_posix()

    def blocks(self) -> tuple[CodeBlock, ...]:
        return tuple(_blocks(self))

    def links(self) -> list[tuple[int, str]]:
        """Line and target of every link and picture."""
        found = []
        for token in self.tokens:
            for child in token.children or []:
                target = child.attrGet("href") or child.attrGet("src")
                if target:
                    found.append(((token.map or [0])[0] + 1, str(target)))
        return found

    def anchors(self) -> set[str]:
        """What a link may name behind `#`: headings as GitHub spells them, and explicit ids."""
        headings = [self.tokens[i + 1].content for i, token in enumerate(self.tokens) if token.type == "heading_open"]
        found: set[str] = set()
        for heading in headings:
            slug, number = anchor_of(heading), 0
            while (f"{slug}-{number}" if number else slug) in found:
                number += 1
            found.add(f"{slug}-{number}" if number else slug)
        return found | set(_INLINE_ID.findall(self.path.read_text(encoding="utf-8")))


@cache
def pages() -> tuple[Page, ...]:
    """Every page of docs/, the README and what stands beside it."""
    beside = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")]
    return tuple(read_page(path) for path in (*beside, *sorted((ROOT / "docs").rglob("*.md"))))


def read_page(path: Path) -> Page:
    """One file, parsed."""
    text = path.read_text(encoding="utf-8")
    return Page(path, tuple(MarkdownIt("commonmark").enable("table").parse(text)))


def anchor_of(heading: str) -> str:
    """GitHub's anchor of a heading."""
    return re.sub(r"[^\w\- ]", "", re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()).replace(" ", "-")


def _blocks(page: Page) -> Iterator[CodeBlock]:
    before: Token | None = None
    for token in page.tokens:
        if token.type == "fence":
            directive = _DIRECTIVE.fullmatch(before.content) if before and before.type == "html_block" else None
            mode, value = (directive[1], directive[2] or "") if directive else ("run", "")
            language = token.info.split()[0] if token.info else ""
            line = (token.map or [0])[0] + 1
            yield CodeBlock(page.name, line, language, token.content, cast(Mode, mode), " ".join(value.split()))
        before = token


def _prompted(block: CodeBlock) -> Iterator[Command]:
    command: Command | None = None
    for number, line in enumerate(block.content.splitlines(), block.line + 1):
        if line.startswith("$ "):
            if command:
                yield command
            command = Command(number, line[2:])
        elif command and command.text.endswith("\\"):
            command = Command(command.line, f"{command.text[:-1]}{line.lstrip()}")
        elif command:
            command = Command(command.line, command.text, (*command.shown, line))
    if command:
        yield command


def _plain(block: CodeBlock) -> Iterator[Command]:
    text = ""
    for number, line in enumerate(block.content.splitlines(), block.line + 1):
        text += line.strip()
        if text.endswith("\\"):
            text = text[:-1]
            continue
        if text and not text.startswith("#"):
            yield Command(number, text)
        text = ""
