"""The registry, its page, and that every red flag is caught by a shipped rule or explained."""

from __future__ import annotations

from pathlib import Path

import pytest

from t1cli.run import metric_names
from t1cli.watch.lint import lint_packs
from t1cli.watch.metrics.binding import Binder
from t1cli.watch.metrics.page import metrics_page
from t1cli.watch.metrics.registry import TABLES, registry
from t1cli.watch.packs import load_packs, shipped_packs

ROOT = Path(__file__).parents[3]
# The rows of tables A to D.
TABLE_ROWS = {"A": 8, "B": 8, "C": 15, "D": 6}


@pytest.mark.catalogue("L11")
def test_every_red_flag_is_a_shipped_rule_or_has_a_reason() -> None:
    rules = {f"{name}/{rule.name}" for name in shipped_packs() for rule in load_packs([name])[0].rules}
    flags = [(name, red) for name, metric in registry().metrics.items() for red in metric.red]
    assert {red.rule for _, red in flags if red.rule} - rules == set()
    assert len(flags) >= 35
    assert all(metric.population in registry().populations for metric in registry().metrics.values())
    assert {metric.table for metric in registry().metrics.values()} <= set(TABLES)


@pytest.mark.catalogue("L11")
def test_all_rows_of_the_tables_are_there() -> None:
    for table, rows in TABLE_ROWS.items():
        assert sum(metric.table == table for metric in registry().metrics.values()) >= rows, table


def test_the_committed_page_is_the_generated_one() -> None:
    assert (ROOT / "docs/reference/metrics.md").read_text(encoding="utf-8") == metrics_page()


def test_shipped_packs_use_known_metrics_only() -> None:
    """The printed block is shipped for comparison and is expected to be found wanting."""
    ours = [name for name in shipped_packs() if name != "postmortem-verbatim"]
    assert lint_packs(ours) == ()
    says = " ".join(finding.message for finding in lint_packs(["postmortem-verbatim"]))
    assert "rollouts 30, 30 and 41" in says
    assert "fires at rollout 30 of the public run verl_grpo_qwen1.5b_healthy" in says


def test_a_misspelt_metric_of_trials_is_found_and_the_right_one_named(tmp_path: Path) -> None:
    pack = tmp_path / "own.yaml"
    rule = "{{name: {0}, metric: terminal/{1}, above: 0.5, severity: warning, says: s}}"
    names = {"typo": "unacounted_tokens", "one": "unaccounted_tokens", "family": "failed_by_cause/engine_timeout"}
    pack.write_text("about: x\nrules:\n" + "".join(f"  - {rule.format(*pair)}\n" for pair in names.items()))
    (found,) = lint_packs([str(pack)])
    assert found.rule == "typo" and "terminal/unaccounted_tokens" in found.hint


@pytest.mark.parametrize(
    ("logged", "canonical"),
    [
        ("actor/grad_norm", "train/grad_norm"),
        ("critic/score/mean", "rollout/raw_reward"),
        ("response/aborted_ratio", "terminal/non_trainable_ratio"),
        ("train/kl", "train/kl_loss"),
        ("policy_loss", "train/pg_loss"),
        ("grad_norm", "train/grad_norm"),
        ("optim/grad_norm", "train/grad_norm"),
        ("sampling/importance_sampling_ratio/mean", "train/tis"),
        ("rollout/entropy", "train/entropy_loss"),
        (metric_names.LOGPROB_GAP, metric_names.LOGPROB_GAP),
        (metric_names.EXPLAINED_VARIANCE, metric_names.EXPLAINED_VARIANCE),
    ],
)
def test_names_of_frameworks(logged: str, canonical: str) -> None:
    found = registry().canonical(logged)
    assert found is not None
    assert found[0] == canonical


def test_logprobs_diff_of_openrlhf_is_not_the_gap() -> None:
    assert registry().canonical("logprobs_diff") is None


def test_the_best_alias_of_a_frame_is_bound_and_stays() -> None:
    binder = Binder()
    assert binder.rename({"actor/entropy_loss": 2.0, "actor/entropy": 1.0})["train/entropy_loss"] == 1.0
    assert binder.bound["train/entropy_loss"] == "actor/entropy"
    assert "train/entropy_loss" not in binder.rename({"actor/entropy_loss": 3.0})


def test_one_name_means_one_metric() -> None:
    aliases: dict[str, str] = {}
    for name, metric in registry().metrics.items():
        for names in metric.aliases.values():
            for alias in names:
                assert aliases.setdefault(alias, name) == name, alias
