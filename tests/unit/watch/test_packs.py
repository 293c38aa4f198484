"""The shipped packs load, and their figures do on public curves and on the dead run what they should."""

from __future__ import annotations

from pathlib import Path

import pytest

from t1cli.errors import BadInput
from t1cli.watch.engine import Engine
from t1cli.watch.packs import load_packs, shipped_packs
from t1cli.watch.sources.source import Row

VARIABLES = {"rollout_batch_size": 16.0, "fallback_max_share": 0.1}


@pytest.mark.parametrize("name", shipped_packs())
def test_every_shipped_pack_loads(name: str) -> None:
    (found,) = load_packs([name])
    assert found.rules


def test_unknown_pack_names_the_shipped_ones() -> None:
    with pytest.raises(BadInput, match="nonesuch") as caught:
        load_packs(["nonesuch", "neither"])
    assert len(caught.value.diagnostics) == 2
    assert "slime-ppo" in caught.value.diagnostics[0].hint


def test_a_bad_pack_is_located(tmp_path: Path) -> None:
    path = tmp_path / "pack.yaml"
    path.write_text("about: x\nrules:\n  - {name: a, metric: m, above: 1, severity: loud, says: s}\n")
    with pytest.raises(BadInput, match="severity"):
        load_packs([str(path)])
    path.write_text("about: [\n")
    with pytest.raises(BadInput, match="not YAML"):
        load_packs([str(path)])


@pytest.mark.catalogue("L2")
def test_a_pack_with_more_mistakes_than_anyone_reads_is_refused_all_the_same(tmp_path: Path) -> None:
    pack = tmp_path / "pack.yaml"
    pack.write_text("".join(f"k{number}: 1\n" for number in range(4000)))
    with pytest.raises(BadInput) as caught:
        load_packs([str(pack)])
    problems = caught.value.diagnostics
    assert len(problems) == 4000 and problems[10].where == f"{pack}:11" and problems[-1].where == str(pack)


def test_verbatim_gradient_rule_stops_a_healthy_low_gradient_run_and_ours_does_not() -> None:
    """Public healthy runs live at a gradient norm of 0.02 to 0.09."""
    verbatim = Engine(load_packs(["postmortem-verbatim"]), variables=VARIABLES)
    ours = Engine(load_packs(["slime-grpo"]), variables=VARIABLES)
    for step in range(120):
        row = Row(step, {"train/grad_norm": 0.03 + 0.01 * (step % 3), "terminal/non_trainable_ratio": 0.05})
        verbatim.observe(row)
        ours.observe(row)
    assert "grad-norm-below-30-stop" in {state.rule.name for state in verbatim.rules if state.fired_at}
    assert not [state for state in ours.rules if state.fired_at and state.rule.severity != "notice"]
