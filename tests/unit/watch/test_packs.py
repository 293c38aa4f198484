"""The shipped packs load, and their figures do on public curves and on the dead run what they should."""

from __future__ import annotations

from pathlib import Path

import pytest

from t1cli.errors import BadInput
from t1cli.watch.engine import Engine
from t1cli.watch.lint import lint_packs
from t1cli.watch.packs import load_packs, shipped_packs
from t1cli.watch.rule_tests import read_tests
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
    assert len(problems) == 4000 and problems[10].where == f"{pack}:11:1" and problems[-1].where == f"{pack}:4000:1"


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


MISTAKES = """\
rules:
  - name: entropy-low
    metric: train/entropy_loss
    bellow: 0.3
    window: many
  - name: halt
    metric: train/grad_norm
    below: 0.1
    severity: stop
  - metric: m
    above: [1]
    baseline: {of: fist, points: 3}
  - {name: short, metric: m, above: "rollout_batch_size **", for: 3}
  - {name: also, metric: m, above: 1, also: [{metric: n, abov: 2}]}
diagnoses:
  - {name: a cause, sings: [], advice: x}
derivd: {}
"""


def test_every_mistake_of_a_pack_names_its_rule_its_line_and_a_near_name(tmp_path: Path) -> None:
    path = tmp_path / "pack.yaml"
    path.write_text(MISTAKES)
    with pytest.raises(BadInput) as caught:
        load_packs([str(path)])
    told = [(one.message, one.where.removeprefix(str(path)), one.hint) for one in caught.value.diagnostics]
    assert ("unknown key `bellow` in rule `entropy-low`", ":4:5", "did you mean `below`?") in told
    assert ('`window` of rule `entropy-low` must be a whole number, found "many"', ":5:5", "") in told
    stop = "rule `halt`: a stop rule needs `second_sign`, or `confirmed: true` where one sign is enough"
    assert (stop, ":6:5", "") in told
    assert [(m, at) for m, at, _ in told if "rule 3 is missing" in m] == [("`name` of rule 3 is missing", ":10:5")]
    assert ("`above` of rule 3 must be a number or an expression, found a list", ":11:5", "") in told
    fist = '`baseline.of` of rule 3 must be first or prior or best or run, found "fist"'
    assert (fist, ":12:16", "did you mean `first`?") in told
    assert any(m.startswith("rule `short`: cannot read the expression 'rollout_batch_size **'") for m, _, _ in told)
    assert ("unknown key `abov` in `also[0]` of rule `also`", ":14:58", "did you mean `above`?") in told
    assert ("unknown key `sings` in diagnosis `a cause`", ":16:21", "did you mean `signs`?") in told
    assert ("unknown key `derivd`", ":17:1", "did you mean `derived`?") in told
    assert not any("pydantic" in m or "Extra inputs" in m or "Value error" in m for m, _, _ in told)


def test_a_bare_list_of_rules_has_lines_too_and_a_key_that_stands_twice_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "pack.yaml"
    path.write_text("- name: a\n  metric: m\n  abov: 1\n")
    with pytest.raises(BadInput, match="unknown key `abov` in rule `a`") as caught:
        load_packs([str(path)])
    assert caught.value.diagnostics[0].where == f"{path}:3:3"
    path.write_text("- name: a\n  metric: m\n  above: 1\n  above: 2\n")
    with pytest.raises(BadInput, match="`above` stands twice, on lines 3 and 4"):
        load_packs([str(path)])


def test_a_rule_test_with_a_typo_is_named_and_located(tmp_path: Path) -> None:
    path = tmp_path / "tests.yaml"
    path.write_text("rules: [terminal]\ntests:\n  - name: a case\n    seris: {m: 1x3}\n")
    with pytest.raises(BadInput) as caught:
        read_tests(path)
    told = {one.message: (one.where, one.hint) for one in caught.value.diagnostics}
    assert told["unknown key `seris` in test `a case`"] == (f"{path}:4:5", "did you mean `series`?")


def test_lint_says_the_line_of_the_rule(tmp_path: Path) -> None:
    path = tmp_path / "pack.yaml"
    path.write_text("about: x\nrules:\n  - name: typo\n    metric: train/grad_nrom\n    above: 5.0\n")
    (finding,) = lint_packs([str(path)])
    assert finding.where == f"{path}:3"
    assert "did you mean `train/grad_norm`" in finding.hint
