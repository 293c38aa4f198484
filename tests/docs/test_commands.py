"""Every command that a page shows works as shown, is run by another test, or says why it cannot be."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from docs.site.pages import ROOT, CodeBlock, Page, pages
from docs.site.shell import Shell, missing_line

SHORTEST_REASON = 15


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shell:
    """A folder that has what a checkout has and into which a page may write."""
    for name in ("experiments", "presets", "docs", "tests"):
        (tmp_path / name).symlink_to(ROOT / name)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.delenv("T1_RUNS_DIR", raising=False)
    return Shell(tmp_path)


def blocks_of(mode: str) -> list[CodeBlock]:
    return [block for page in pages() for block in page.blocks() if block.has_commands and block.mode == mode]


def acts(page: Page) -> bool:
    return any(
        block.mode in ("run", "file") and (block.has_commands or block.mode == "file") for block in page.blocks()
    )


@pytest.mark.parametrize("page", [page for page in pages() if acts(page)], ids=lambda page: page.name)
def test_commands_of_a_page_do_what_it_shows(page: Page, shell: Shell) -> None:
    for block in page.blocks():
        if block.mode == "file":
            shell.write(block.value, block.content)
        elif block.mode == "run" and block.has_commands:
            run(block, shell)


def run(block: CodeBlock, shell: Shell) -> None:
    wanted = re.search(r"exit (\d+)", block.value)
    commands = block.commands()
    for number, command in enumerate(commands):
        outcome = shell.run(command.text)
        code = int(wanted[1]) if wanted and number == len(commands) - 1 else 0
        assert outcome.exit_code == code, f"{block.page}:{command.line}: {command.text}\n{outcome.output}"
        if "output varies" not in block.value:
            missing = missing_line(command.shown, outcome.output)
            assert missing is None, f"{block.page}:{command.line}: not printed: {missing}\n{outcome.output}"


@pytest.mark.parametrize("block", blocks_of("not run"), ids=lambda block: f"{block.page}:{block.line}")
def test_what_is_not_run_says_why(block: CodeBlock) -> None:
    assert len(block.value) >= SHORTEST_REASON


@pytest.mark.parametrize("block", blocks_of("tested by"), ids=lambda block: f"{block.page}:{block.line}")
def test_what_another_test_runs_is_in_that_test(block: CodeBlock) -> None:
    for place in block.value.split(", "):
        path, _, name = place.partition("::")
        assert name in functions_of(ROOT / path), place


@cache
def functions_of(path: Path) -> set[str]:
    tree = ast.parse(path.read_text(encoding="utf-8")) if path.is_file() else ast.Module([], [])
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


def test_own_tasks_are_ready_within_twelve_commands() -> None:
    (page,) = (page for page in pages() if page.name == "docs/guides/own-tasks.md")
    commands = [
        c.text for block in page.blocks() if block.has_commands and block.mode == "run" for c in block.commands()
    ]
    first = next(number for number, command in enumerate(commands) if command.startswith("t1 init"))
    assert commands.index("t1 preflight experiment.yaml") - first < 12


PYTHON = [b for page in pages() for b in page.blocks() if b.language == "python" and b.mode == "run"]


@pytest.mark.parametrize("block", PYTHON, ids=lambda block: f"{block.page}:{block.line}")
def test_python_of_a_page_runs(block: CodeBlock, shell: Shell) -> None:
    exec(compile(block.content, f"{block.page}:{block.line}", "exec"), {"__name__": "docs"})


@pytest.mark.parametrize(
    ("shown", "output", "missing"),
    [
        (("a", "…", "c"), "a\nb\nc\n", None),
        (("  spaced   out",), "spaced out", None),
        (("plan … of 3",), "plan a75160 of 3", None),
        (("plan … of 3",), "plan a75160 of 4", "plan … of 3"),
        (("c", "a"), "a\nc\n", "a"),
        (("gone",), "here", "gone"),
    ],
)
def test_output_is_compared_line_by_line(shown: tuple[str, ...], output: str, missing: str | None) -> None:
    assert missing_line(shown, output) == missing
