"""Thousands of adversarial trials against the simulator's oracle: no drift, equal lengths, a ledger that closes."""

from __future__ import annotations

from random import Random
from types import ModuleType

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

QUICK, ALL = 600, 10_000
BY_GRID_QUICK, BY_GRID_ALL = 15, 400
ROUTING = st.sampled_from(["required", "kept"])
SEED = st.integers(0, 2**63)
RANDOM = SEED.map(Random)
SHRINKABLE = st.randoms(use_true_random=False)
"""Every choice of the simulator is hypothesis's own, so that a failure is cut down to its core; much slower."""
UNHURRIED = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example]


@pytest.mark.catalogue("F1")
@given(seed=SEED, routing=ROUTING)
@example(seed=3636, routing="required").via("a silent turn after a repair that adds no id")
@settings(max_examples=QUICK, deadline=None)
def test_generated_trials_are_assembled_faithfully(simulation: ModuleType, seed: int, routing: str) -> None:
    simulation.check(simulation.simulate(Random(seed)), routing=routing)


@given(random=SHRINKABLE, routing=ROUTING)
@settings(max_examples=15, deadline=None, suppress_health_check=UNHURRIED)
def test_a_failure_would_shrink(simulation: ModuleType, random: Random, routing: str) -> None:
    simulation.check(simulation.simulate(random), routing=routing)


@given(random=RANDOM, routing=ROUTING)
@settings(max_examples=BY_GRID_QUICK, deadline=None)
def test_no_cell_of_the_grid_would_have_come_first(simulation: ModuleType, random: Random, routing: str) -> None:
    simulation.check(simulation.simulate(random), routing=routing, by_grid=True)


def test_the_simulator_makes_every_case(simulation: ModuleType) -> None:
    tally = simulation.Tally()
    for seed in range(400):
        simulation.check(simulation.simulate(Random(seed)), routing="required" if seed % 2 else "kept", tally=tally)
    assert min(tally.relations[name] for name in ("strict", "normalized", "retokenized", "split")) > 10
    assert tally.ties > 3 and tally.placeholders > 0
    assert (tally.drifted, tally.mismatched_lengths, tally.unaccounted) == (0, 0, 0)


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_ten_thousand_generated_trials(simulation: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    tally = simulation.Tally()
    trials = 0

    @given(random=RANDOM, routing=ROUTING)
    @settings(max_examples=ALL, deadline=None)
    def run(random: Random, routing: str) -> None:
        nonlocal trials
        simulation.check(simulation.simulate(random), routing=routing, tally=tally)
        trials += 1

    run()
    with capsys.disabled():
        print(f"\n{trials} generated trials: {tally}")
    assert trials >= ALL


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_the_whole_grid_by_brute_force(simulation: ModuleType) -> None:
    @given(random=RANDOM, routing=ROUTING)
    @settings(max_examples=BY_GRID_ALL, deadline=None)
    def run(random: Random, routing: str) -> None:
        simulation.check(simulation.simulate(random), routing=routing, by_grid=True)

    run()


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_choices_of_hypothesis_itself(simulation: ModuleType) -> None:
    @given(random=SHRINKABLE, routing=ROUTING)
    @settings(max_examples=500, deadline=None, suppress_health_check=UNHURRIED)
    def run(random: Random, routing: str) -> None:
        simulation.check(simulation.simulate(random), routing=routing)

    run()
