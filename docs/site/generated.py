"""Every page and file under docs/reference that is written by code, and never by hand."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from docs.site.checks_page import checks_page
from docs.site.cli_page import cli_page
from docs.site.exit_codes_page import exit_codes_page
from docs.site.pages import ROOT
from t1cli.catalogue.page import PAGE_FILE, page_text
from t1cli.spec.reference import REFERENCE_FILE, reference_text
from t1cli.spec.schema import SCHEMA_FILE, schema_text
from t1cli.watch.metrics.page import metrics_page

REFERENCE: Final = ROOT / "docs" / "reference"

PAGES: Final[Mapping[str, Callable[[], str]]] = {
    "checks.md": checks_page,
    "cli.md": cli_page,
    "exit-codes.md": exit_codes_page,
    PAGE_FILE: page_text,
    "metrics.md": metrics_page,
    REFERENCE_FILE: reference_text,
    SCHEMA_FILE: schema_text,
}


def write_generated(folder: Path = REFERENCE) -> list[str]:
    """Write what differs; returns the names."""
    changed = []
    for name, text in PAGES.items():
        path, new = folder / name, text()
        if not path.is_file() or path.read_text(encoding="utf-8") != new:
            path.write_text(new, encoding="utf-8")
            changed.append(name)
    return changed
