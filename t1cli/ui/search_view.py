"""`t1 plan --search` as text: the best layouts, the spec's own, and the nearest misses with their reason."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.text import Text

from t1cli.plan.search import FoundLayout, SearchAnswer
from t1cli.spec.command_line import command_line, with_settings
from t1cli.ui.console import answer
from t1cli.ui.wrapped import wrapped

BEST, MISSES, WIDEST = 10, 3, 100
LEGEND = (
    "* the experiment as it is; ~ its axes with other settings; peak, and the high end of its band: GiB of the fullest "
    "GPU; score: a price to order by, 1 without pipeline bubble, communication, recomputation and offload, and no "
    "measured time"
)


def print_search(found: SearchAnswer, *, source: str, overrides: Sequence[str] = ()) -> None:
    """The table on stdout, and the command that plans the best layout."""
    width = min(answer().width, WIDEST)
    for line in search_lines(found, source=source, width=width, overrides=overrides):
        answer().print(Text(line))


def search_lines(found: SearchAnswer, *, source: str, width: int, overrides: Sequence[str] = ()) -> Iterator[str]:
    """Best first, with the experiment as it is (`*`) and the best that its own axes could do (`~`)."""
    yield f"{found.name}   layouts on {found.train_gpus} training GPUs of {found.usable_gib:g} GiB"
    if found.memory_overlay is not None:
        yield f"  predicted with the fitted overlay {found.memory_overlay}"
    yield ""
    yield f"  {'tp':>4}{'pp':>4}{'vpp':>4}{'cp':>4}{'ep':>4}{'etp':>4}  {'recompute':<11}{'offload':<9}" + (
        f"{'peak':>7}{'high':>7}{'score':>7}  verdict"
    )
    fitting = [layout for layout in found.layouts if layout.verdict != "OOM"]
    shown = fitting[:BEST]
    same_axes = next((layout for layout in fitting if layout.current), None)
    for layout in (found.own, same_axes):
        if layout is not None and not _is_among(layout, shown):
            shown.append(layout)
    yield from map(_row, shown)
    if found.own_impossible:
        told = f"* the experiment as it is cannot exist: {'; '.join(found.own_impossible)}"
        yield from wrapped(told, width, rest="  ")
    yield ""
    yield from wrapped(LEGEND, width, first="  ")
    yield ""
    yield from _nearest_misses(found, width)
    yield (
        f"{found.count('FITS')} fit, {found.count('TIGHT')} tight, {found.count('OOM')} do not; {found.impossible:,} "
        f"more cannot exist"
    )
    yield f"{found.searched:,} settings predicted in {found.seconds:.1f} s"
    if fitting and found.simplest is not None:
        best, simplest = (
            command_line("plan", source, overrides=with_settings(overrides, layout.settings))
            for layout in (fitting[0], found.simplest)
        )
        if simplest != best and found.simplest.settings:
            yield f"Fewest changes, {_in_words(found.simplest)}: `{simplest}`"
        yield f"Next: `{best}`"


def _is_among(layout: FoundLayout, shown: Sequence[FoundLayout]) -> bool:
    """Whether the same row stands there; rows of the experiment's own axes are told apart by what they change."""
    return any(one.current and one.settings == layout.settings for one in shown)


def _in_words(layout: FoundLayout) -> str:
    return f"{layout.verdict}, peak {layout.peak_gib:.1f}, score {layout.score:.3f}"


def _row(layout: FoundLayout) -> str:
    axes = (layout.tp, layout.pp, layout.vpp, layout.cp, layout.ep, layout.etp)
    mark = " " if not layout.current else "~" if layout.settings else "*"
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
        yield from wrapped(text, width, first="  near miss  ")
    if misses:
        yield ""
