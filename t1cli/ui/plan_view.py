"""A plan as text: one fixed order of sections, the binding term named, a verdict word, one line to paste."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Final

from rich.text import Text

from memory_model.units import GIB
from t1cli.errors import ExitCode
from t1cli.plan.binding import binding_term, states_gib
from t1cli.plan.plan import Finding, OverlayUsed, Plan, StageMemory
from t1cli.spec.command_line import command_line, with_settings
from t1cli.spec.locate import is_script
from t1cli.ui.console import answer
from t1cli.ui.counted import counted
from t1cli.ui.wrapped import wrapped

MARKS = {"error": "✗", "warning": "!", "notice": "-"}
STYLES = {"error": "red", "warning": "yellow", "notice": "dim"}
WIDEST = 100
LABEL_WIDTH = 12


def print_plan(plan: Plan, *, exit_code: ExitCode, overrides: Sequence[str] = (), strict: bool = False) -> None:
    """The whole plan on stdout; the next command repeats `overrides` (the `--set` it was asked with) and `--strict`."""
    console = answer()
    width = min(console.width, WIDEST)
    for line in plan_lines(plan, width=width, exit_code=exit_code, overrides=overrides, strict=strict):
        console.print(Text(line, style=_style(line) if console.is_terminal else ""))


def plan_lines(
    plan: Plan, *, width: int, exit_code: ExitCode, overrides: Sequence[str] = (), strict: bool = False
) -> list[str]:
    """The text of a plan, no line wider than `width` except what cannot be broken."""
    lines = [_apart(f"{plan.name}   {plan.title}", f"plan {plan.digest}", width), ""]
    lines += [*_memory(plan, width), *_rows(plan, width), ""]
    for alike in _with_one_fix(plan.findings):
        lines += _finding(alike, width)
    lines += [""] if plan.findings else []
    lines += [*_verdict(plan, width), _apart(_next(plan, overrides, strict), f"exit {int(exit_code)}", width)]
    return lines


def _style(line: str) -> str:
    by_start = {f"{mark} ": STYLES[severity] for severity, mark in MARKS.items()}
    by_start |= {"OOM ": "bold red", "TIGHT ": "bold yellow", "FITS ": "bold green"}
    return next((style for start, style in by_start.items() if line.startswith(start)), "")


def _apart(left: str, right: str, width: int) -> str:
    gap = width - len(left) - len(right)
    return f"{left}{' ' * gap}{right}" if gap >= 2 else f"{left}\n{right:>{width}}"


def _memory(plan: Plan, width: int) -> Iterator[str]:
    if not plan.memory.roles:
        return
    yield f"  {'stage':<10}{'peak GiB':>8}{'low-high':>13}{'used':>6}{'states':>8}  worst phase, binding term"
    for role, memory in plan.memory.roles.items():
        for stage in memory.stages:
            yield _stage(role, stage, plan.memory.usable_gib)
    basis = (
        f"of {plan.memory.usable_gib:g} GiB usable per GPU; {plan.memory.tokens_per_micro_batch:,} tokens a rank; "
        f"{plan.memory.band}"
    )
    yield from wrapped(basis, width, first="  ")
    if plan.memory.overlay is not None:
        yield from wrapped(_overlay(plan.memory.overlay), width, first="  ")
    yield ""


def _overlay(used: OverlayUsed) -> str:
    moved = ", ".join(f"{name} {value:g}" for name, value in used.coefficients.items()) or "nothing moved"
    return f"fitted overlay {used.name}: {moved}. {used.about} Uncalibrated: --set trainer.memory_overlay=null"


def _stage(role: str, stage: StageMemory, usable_gib: float) -> str:
    term, gib = binding_term(stage.terms)
    band = f"{stage.low_gib:.1f}-{stage.high_gib:.1f}"
    share = stage.peak_gib / usable_gib if usable_gib else 0.0
    states = states_gib(stage.terms)
    why = f"{stage.phase.removeprefix('train ')}: {term} {gib:.1f}"
    return f"  {f'{role} {stage.stage}':<10}{stage.peak_gib:>8.1f}{band:>13}{share:>6.0%}{states:>8.1f}  {why}"


def _rows(plan: Plan, width: int) -> Iterator[str]:
    for label, text in _facts(plan):
        yield from _row(label, text, width)


def _row(label: str, text: str, width: int) -> list[str]:
    return wrapped(text, width, first=f"  {label:<{LABEL_WIDTH}}")


def _facts(plan: Plan) -> Iterator[tuple[str, str]]:
    yield "parameters", _parameters(plan)
    largest = sorted(plan.host.terms.items(), key=lambda item: -item[1])[:2]
    named = ", ".join(f"{name.replace('_', ' ')} {gib:,.1f}" for name, gib in largest if gib)
    yield (
        "host RAM",
        f"{plan.host.needed_gib:,.1f} of {plan.host.ram_gib:,.0f} GiB a node"
        f" ({plan.host.needed_gib / plan.host.ram_gib:.0%})" + (f"; {named}" if named else ""),
    )
    yield (
        "disk",
        f"{_size(plan.disk.total_gib)} of {plan.disk.disk_gib:,.0f} GiB "
        f"({plan.disk.total_gib / plan.disk.disk_gib:.0%}); {counted(plan.disk.saves_kept, 'save')} of "
        f"{_size(plan.disk.per_save_gib)} kept, one being written",
    )
    yield "schedule", _schedule(plan)
    if plan.pool.demand:
        yield "pool", _pool(plan)
    if plan.schedule.routing_bytes_per_token:
        yield "routing", _routing(plan)
    if plan.schedule.step_seconds is not None:
        yield "cost", _cost(plan)


def _size(gib: float) -> str:
    """GiB, or MiB where that would read 0."""
    return f"{gib:,.1f} GiB" if gib >= 0.95 else f"{gib * 1024:,.1f} MiB"


def _parameters(plan: Plan) -> str:
    counts = ", ".join(_count(stage) for stage in plan.parameters.per_stage)
    return f"{_count(plan.parameters.total)}" + (f"; per stage {counts}" if len(plan.parameters.per_stage) > 1 else "")


def _count(parameters: int) -> str:
    for size, unit in ((10**9, "B"), (10**6, "M"), (10**3, "k")):
        if parameters >= size:
            return f"{parameters / size:.2f} {unit}"
    return str(parameters)


def _schedule(plan: Plan) -> str:
    schedule = plan.schedule
    drawn = ""
    if schedule.epochs_drawn > schedule.epochs_seen:
        drawn = f" ({schedule.epochs_drawn:.2f} with discarded surplus)"
    # The embedded engine draws across the ends of epochs.
    skipped = schedule.tasks_skipped_per_epoch if plan.engine == "slime" else 0
    return (
        f"{counted(schedule.rollouts, 'rollout')}, {counted(schedule.optimizer_steps, 'optimizer step')} of "
        f"{counted(schedule.samples_per_step, 'sample')}; {schedule.epochs_seen:.2f} epochs{drawn}"
        + (f"; slime's whole epochs would skip {skipped:,} tasks each" if skipped else "")
    )


def _pool(plan: Plan) -> str:
    pool, ramp = plan.pool, plan.schedule.sandbox_ramp_seconds
    return (
        f"{pool.demand:,} sandboxes wanted, {pool.capacity:,} exist ({pool.ratio:.2f}×), {pool.granted:,} granted at "
        f"once; " + (f"all there after {ramp:.0f} s" if ramp else "creation unpaced")
    )


def _routing(plan: Plan) -> str:
    schedule = plan.schedule
    return (
        f"{schedule.routing_bytes_per_token:,} B a token as int32, at most "
        f"{_size(schedule.routing_bytes_per_step / GIB)} a step; uint8 would take "
        f"{schedule.routing_bytes_per_token // 4:,} B"
    )


def _cost(plan: Plan) -> str:
    schedule = plan.schedule
    side = f", {schedule.binding_side} binds" if schedule.binding_side != "unknown" else ""
    text = f"{schedule.step_seconds:,.0f} s a step{side}"
    if schedule.gpu_hours is not None:
        text += (
            f"; {schedule.gpu_hours:,.0f} GPU-hours in all, {schedule.gpu_hours_per_step:,.1f} a step, "
            f"{schedule.gpu_hours_per_day:,.0f} a wasted day"
        )
    return text + (f"; money {schedule.cost:,.0f}" if schedule.cost is not None else "")


def _with_one_fix(findings: Sequence[Finding]) -> list[list[Finding]]:
    """Neighbours that differ in their message or place only: their fix is told once."""
    return [list(alike) for _, alike in groupby(findings, key=lambda found: (found.id, found.severity, found.fix))]


def _finding(alike: Sequence[Finding], width: int) -> list[str]:
    finding = alike[0]
    head = f"{MARKS[finding.severity]} {finding.id:<4} "
    indent = " " * len(head)
    lines = []
    for where, told in groupby(alike, key=lambda found: found.where):
        for one in told:
            lines += wrapped(one.message, width, first=head)
        lines.append(f"{indent}--> {where}")
    if finding.severity == "notice":
        return lines
    for index, text in enumerate(finding.fix.splitlines()):
        start = f"{indent}fix: " if index == 0 else f"{indent}  "
        lines += wrapped(text, width, first=start, rest=f"{indent}     ")
    return lines


def _verdict(plan: Plan, width: int) -> list[str]:
    meaning = {
        "FITS": "the whole error band is below what a GPU offers",
        "TIGHT": "the error band crosses what a GPU offers",
        "OOM": "a GPU has less than must be live at once" if plan.memory.roles else "the layout does not exist",
        "NOT_APPLICABLE": "the embedded engine uses no GPU memory",
    }[plan.verdict]
    return [*wrapped(f"{plan.verdict}   {meaning}", width), *wrapped(_counts(plan), width)]


def _counts(plan: Plan) -> str:
    count = {severity: sum(f.severity == severity for f in plan.findings) for severity in MARKS}
    said = ", ".join(counted(n, severity) for severity, n in count.items() if n)
    refusing = dict.fromkeys(finding.id for finding in plan.findings if finding.severity == "error")
    return (said or "no findings") + (f"; refused by {', '.join(refusing)}" if refusing else "")


def _next(plan: Plan, overrides: Sequence[str], strict: bool) -> str:
    name = plan.source or plan.name
    if plan.accepted_for_launch and not (strict and plan.verdict == "TIGHT"):
        return _next_of_script(name, overrides) if is_script(Path(name)) else _next_of_spec(name, overrides)
    same = ["--strict"] if strict else []
    settings = next((found for finding in plan.findings if (found := _settings(finding))), ())
    if settings:
        return f"Next: `{command_line('plan', name, overrides=with_settings(overrides, settings), more=same)}`"
    # Only a layout's own memory is what a search over layouts can cure.
    if plan.verdict in ("OOM", "TIGHT") and (strict or plan.verdict == "OOM"):
        return f"Next: `{command_line('plan', name, overrides=overrides, more=['--search'])}`"
    return f"Next: do what the fix says, then `{command_line('plan', name, overrides=overrides, more=same)}`"


def _next_of_spec(name: str, overrides: Sequence[str]) -> str:
    return f"Next: `{command_line('preflight', name, overrides=overrides)}`"


def _next_of_script(name: str, overrides: Sequence[str]) -> str:
    """A launch needs the spec of it: variables are set where it is converted, keys of the spec from then on."""
    spec = f"{Path(name).stem}.yaml"
    variables = [text for text in overrides if "." not in text.partition("=")[0]]
    keys = [text for text in overrides if text not in variables]
    convert = command_line("convert", name, overrides=variables, more=["--output", spec])
    return f"Next: `{convert}`, then `{command_line('preflight', spec, overrides=keys)}`"


_SETTING: Final = r"--set [\w.]+=[\w./-]*\w(?![\w:/…<\[])"


def _settings(finding: Finding) -> tuple[str, ...]:
    """The first run of `--set key=value` in an error's fix, if it can be pasted as it is."""
    fix = re.sub(r"`t1 [^`]*`", "", finding.fix)
    match = re.search(rf"{_SETTING}(?: {_SETTING})*", fix)
    found = tuple(match.group(0).split()[1::2]) if match and finding.severity == "error" else ()
    return () if any(text.partition("=")[2].isupper() for text in found) else found
