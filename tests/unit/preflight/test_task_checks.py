"""tasks: pools as they really lie on a disk, copied from the quickstart's and then damaged."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from t1cli.preflight.task_pool import state_of
from t1cli.spec.reward_scale import ninetieth
from t1cli.terminal.tasks.check_pool import spread_of
from tests.unit.preflight.conftest import TASKS, Ask, MakeContext, with_tasks


def first(pool: Path) -> Path:
    return min(pool.iterdir())


def test_a_readable_pool_of_another_size(context_of: MakeContext, ask: Ask, pool: Path) -> None:
    saw = ask("tasks.pool", with_tasks(context_of, pool))
    assert saw.status == "warn" and saw.found.startswith("3 tasks in")
    assert ask("tasks.pool", with_tasks(context_of, pool, "tasks.card.num_tasks=3")).status == "pass"
    assert ask("tasks.pool", with_tasks(context_of, pool / "absent")).status == "fail"


def test_task_toml_with_a_byte_order_mark_is_read(context_of: MakeContext, ask: Ask, pool: Path) -> None:
    toml = first(pool) / "task.toml"
    toml.write_bytes(b"\xef\xbb\xbf" + toml.read_bytes())
    (first(pool) / "instruction.md").write_bytes(b"\xef\xbb\xbfdo it")
    context = with_tasks(context_of, pool, "tasks.card.num_tasks=3")
    assert ask("tasks.pool", context).status == "pass"
    from t1cli.preflight.task_pool import tasks_of

    assert tasks_of(context)[0].instruction == "do it"


@pytest.mark.catalogue("R4")
@pytest.mark.parametrize(
    "place", ["tests/ctrf.json", "environment/files/logs/verifier/reward.txt", "verifier/ctrf.json"]
)
def test_a_planted_stale_report_is_refused(context_of: MakeContext, ask: Ask, pool: Path, place: str) -> None:
    assert ask("tasks.stale_reports", with_tasks(context_of, pool)).status == "pass"
    planted = first(pool) / place
    planted.parent.mkdir(parents=True, exist_ok=True)
    planted.write_text("{}")
    saw = ask("tasks.stale_reports", with_tasks(context_of, pool))
    assert saw.status == "fail" and saw.found == f"1 in 1 directories, first {planted}"


@pytest.mark.catalogue("R10")
def test_budgets_that_the_wall_cuts_are_counted(context_of: MakeContext, ask: Ask, pool: Path) -> None:
    toml = first(pool) / "task.toml"
    text = "\n".join(line for line in toml.read_text().splitlines() if "timeout_sec" not in line or "verifier" in line)
    toml.write_text(text.replace("[agent]", "") + "\n[agent]\ntimeout_sec = 900.0\n")
    saw = ask("tasks.budgets", with_tasks(context_of, pool))
    assert saw.status == "warn"
    assert saw.found == f"1 of 3 tasks declare more, up to 900 s ({first(pool).name})"
    assert saw.wanted == "no declared budget above 60 s"
    assert ask("tasks.budgets", with_tasks(context_of, pool, "rollout.trial_wall_seconds=900")).status == "pass"
    override = with_tasks(context_of, pool, "rollout.trial_wall_seconds=900", "tasks.timeout_override_seconds=30")
    assert ask("tasks.budgets", override).status == "warn"


@pytest.mark.catalogue("C10")
def test_copies_and_evaluation_tasks_that_are_trained_on(
    context_of: MakeContext, ask: Ask, pool: Path, tmp_path: Path
) -> None:
    evaluated = tmp_path / "held-out"
    shutil.copytree(first(pool), evaluated / "renamed")
    shutil.copytree(sorted(TASKS.iterdir())[-1], evaluated / "other")
    block = (
        "evaluation={name: held-out, path: " + str(evaluated) + ", num_tasks: 2, context_tokens: 512, "
        "max_new_tokens_per_turn: 48, max_turns: 10}"
    )
    context = with_tasks(context_of, pool, block)
    saw = ask("tasks.overlap", context)
    assert saw.status == "fail" and saw.found == f"1 of 2: renamed (trained on as {first(pool).name})"
    assert ask("tasks.evaluation_set", context).status == "pass"
    saw = ask("tasks.categories", context)
    assert saw.status == "warn" and "1 of 2 evaluation tasks" in saw.found
    assert (
        ask("tasks.evaluation_set", with_tasks(context_of, pool, block.replace("num_tasks: 2", "num_tasks: 9"))).status
        == "fail"
    )
    assert ask("tasks.duplicates", context).status == "pass"
    shutil.copytree(first(pool), pool / "zz-copy")
    saw = ask("tasks.duplicates", with_tasks(context_of, pool))
    assert saw.status == "warn" and saw.found == f"1 of 4 are copies: {first(pool).name} = zz-copy"


@pytest.mark.catalogue("R3")
def test_verifiers_that_need_a_network_or_may_write_nothing(context_of: MakeContext, ask: Ask, pool: Path) -> None:
    (first(pool) / "tests/test.sh").write_text(
        "curl -LsSf https://example.org/uv | sh\npytest --ctrf x\necho 1 > reward.txt\n"
    )
    saw = ask("tasks.verifiers", with_tasks(context_of, pool))
    assert saw.status == "warn" and "1 of 3 (verifier-online 1)" in saw.found
    for task in pool.iterdir():
        (task / "tests/test.sh").write_text("set -e\npytest\nmkdir -p /logs\necho 1 > /logs/verifier/reward.txt\n")
    saw = ask("tasks.verifiers", with_tasks(context_of, pool))
    assert saw.status == "fail" and "3 of 3 (reward-line 3)" in saw.found


@pytest.mark.catalogue("R2")
def test_tests_per_task_against_the_scale(context_of: MakeContext, ask: Ask, pool: Path) -> None:
    saw = ask("tasks.test_counts", with_tasks(context_of, pool))
    assert saw.status == "warn" and "S = 20" in saw.found
    assert ask("tasks.test_counts", with_tasks(context_of, pool, "reward.scale=2")).status == "pass"


@pytest.mark.catalogue("R2")
@pytest.mark.parametrize(("times", "fit"), [(0.4, False), (0.5, True), (3.0, True), (5.0, True), (6.0, False)])
def test_plan_and_preflight_judge_a_scale_alike(
    context_of: MakeContext, ask: Ask, pool: Path, times: float, fit: bool
) -> None:
    """At three times the percentile one of them used to say nothing, the other to object."""
    found = ask("tasks.test_counts", with_tasks(context_of, pool)).found
    p90 = float(found.partition("p90 ")[2].partition(",")[0])
    context = with_tasks(context_of, pool, f"reward.scale={times * p90}", f"tasks.card.tests_p90={p90}")
    assert (ask("tasks.test_counts", context).status == "pass") is fit
    assert any("90th percentile" in finding.message for finding in context.plan.findings) is not fit


@given(st.lists(st.integers(1, 60), min_size=1, max_size=40))
def test_the_percentile_is_a_number_of_the_pool_that_most_do_not_exceed(tests: list[int]) -> None:
    p90 = ninetieth(tests)
    assert p90 in tests and sum(number <= p90 for number in tests) >= 0.9 * (len(tests) - 1)
    assert spread_of(tests)["p90"] == p90


def test_the_kept_answer_depends_on_every_file(context_of: MakeContext, pool: Path) -> None:
    before = state_of(with_tasks(context_of, pool))
    assert before == state_of(with_tasks(context_of, pool))
    (first(pool) / "tests" / "more.py").write_text("x")
    assert before != state_of(with_tasks(context_of, pool))
