"""`python -m docs.site [OUTPUT]`: writes the generated pages of docs/reference, then all pages as HTML."""

from __future__ import annotations

import sys
from pathlib import Path

from docs.site.generated import write_generated
from docs.site.html import build_site
from docs.site.pages import ROOT, pages


def main() -> None:
    """Build everything and say what came of it."""
    output = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "build" / "docs"
    changed = write_generated()
    print(f"docs/reference: {', '.join(changed)} written" if changed else "docs/reference is current")
    written = build_site(pages(), output)
    print(f"{len(written)} pages under {output}; open {output / 'README.html'}")


main()
