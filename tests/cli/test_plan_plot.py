"""`t1 plan --plot`: bars as long as the peaks, in 80 plain columns, with the card's end where it is."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from t1cli.plan.build import build_plan
from t1cli.plan.plan import Plan
from t1cli.spec.load import load_experiment
from t1cli.ui.memory_plot import BAR, plot_lines

T1 = "t1-strategy15k"


def plan_of(name: str, *overrides: str) -> Plan:
    return build_plan(load_experiment(Path(name), overrides))


@pytest.mark.parametrize("cp", [2, 4])
def test_every_phase_has_a_bar_of_its_length(cp: int) -> None:
    plan = plan_of(T1, f"topology.cp={cp}")
    lines = list(plot_lines(plan))
    assert all(len(line) <= 80 and line.isprintable() and "\x1b" not in line for line in lines)
    phases = [phase for role in plan.memory.roles.values() for stage in role.stages for phase in stage.phases]
    bars = [found for line in lines if (found := re.match(r"  .{22} +([\d.]+) (\S.*?)(?: <)?$", line))]
    assert [float(bar[1]) for bar in bars] == [pytest.approx(phase.peak_gib, abs=0.05) for phase in phases]
    longest = max(plan.memory.usable_gib, *(phase.peak_gib for phase in phases))
    for bar, phase in zip(bars, phases, strict=True):
        drawn = bar[2].replace("|", "").rstrip()
        assert len(drawn) == pytest.approx(phase.peak_gib * BAR / longest, abs=1)
        assert (bar[2].rstrip()[-1] != "|") == (len(drawn) > bar[2].index("|"))
    assert sum(line.endswith(" <") for line in lines) == 4


def test_the_logits_of_CP2_cross_the_card_and_the_legend_names_them() -> None:
    lines = list(plot_lines(plan_of(T1, "topology.cp=2")))
    text = "\n".join(lines)
    last = text.rpartition("actor, stage 1")[2]
    (worst,) = [line for line in last.splitlines() if line.endswith(" <")]
    letter = re.search(r"(\w) logits\b", text)
    assert letter is not None and worst.count(letter[1]) >= 10 and not worst.endswith("| <")


def test_without_gpus_there_is_nothing_to_plot() -> None:
    assert list(plot_lines(plan_of("quickstart"))) == [
        "quickstart: nothing to plot; the embedded engine uses no GPU memory"
    ]
