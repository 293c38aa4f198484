"""`t1 plan --search` as text: the best layouts, the spec's own, and the nearest misses with their reason."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

from rich.text import Text

from t1cli.plan.search import FoundLayout, SearchAnswer
from t1cli.spec.command_line import command_line, with_settings
from t1cli.ui.console import answer

BEST, MISSES, WIDEST = 10, 3, 100
LEGEND = (
    "* the axes of the experiment now; peak, and the high end of its band: GiB of the fullest GPU; score: a price "
    "to order by, 1 without pipeline bubble, communication, recomputation and offload, and no measured time"
)


def print_search(found: SearchAnswer, *, source: str, overrides: Sequence[str] = ()) -> None:
    """The table on stdout, and the command that plans the best layout."""
    width = min(answer().width, WIDEST)
    for line in search_lines(found, source=source, width=width, overrides=overrides):
        answer().print(Text(line))


def search_lines(found: SearchAnswer, *, source: str, width: int, overrides: Sequence[str] = ()) -> Iterator[str]:
    """Best first; `*` marks the axes that the spec has now."""
    yield f"{found.name}   layouts on {found.train_gpus} training GPUs of {found.usable_gib:g} GiB"
    if found.memory_overlay is not None:
        yield f"  predicted with the fitted overlay {found.memory_overlay}"
    yield ""
    yield f"  {'tp':>4}{'pp':>4}{'vpp':>4}{'cp':>4}{'ep':>4}{'etp':>4}  {'recompute':<11}{'offload':<9}" + (
        f"{'peak':>7}{'high':>7}{'score':>7}  verdict"
    )
    fitting = [layout for layout in found.layouts if layout.verdict != "OOM"]
    shown = fitting[:BEST]
    own = next((layout for layout in found.layouts if layout.current), None)
    for layout in [*shown, *([own] if own is not None and own not in shown else [])]:
        yield _row(layout)
    yield ""
    yield from textwrap.wrap(LEGEND, width, initial_indent="  ", subsequent_indent="  ")
    yield ""
    yield from _nearest_misses(found, width)
    yield (
        f"{found.count('FITS')} fit, {found.count('TIGHT')} tight, {found.count('OOM')} do not; {found.impossible:,} "
        f"more cannot exist"
    )
    yield f"{found.searched:,} settings predicted in {found.seconds:.1f} s"
    if fitting:
        settings = with_settings(overrides, fitting[0].settings)
        yield f"Next: `{command_line('plan', source, overrides=settings)}`"


def _row(layout: FoundLayout) -> str:
    axes = (layout.tp, layout.pp, layout.vpp, layout.cp, layout.ep, layout.etp)
    mark = "*" if layout.current else " "
    offload = "optimizer" if layout.optimizer_cpu_offload else "-"
    return (
        f"{mark} {''.join(f'{size:>4}' for size in axes)}  {layout.recompute:<11}{offload:<9}"
        f"{layout.peak_gib:>7.1f}{layout.high_gib:>7.1f}{layout.score:>7.3f}  {layout.verdict}"
    )


def _nearest_misses(found: SearchAnswer, width: int) -> Iterator[str]:
    misses = [layout for layout in found.layouts if layout.verdict == "OOM"][:MISSES]
    for layout in misses:
        text = (
            f"tp {layout.tp} pp {layout.pp} vpp {layout.vpp} cp {layout.cp} ep {layout.ep} etp {layout.etp}, "
            f"{layout.recompute}: {layout.why_not}"
        )
        yield from textwrap.wrap(text, width, initial_indent="  near miss  ", subsequent_indent="             ")
    if misses:
        yield ""
