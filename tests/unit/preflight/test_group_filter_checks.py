"""The filter of groups, imported in a process of its own where rollouts are put together."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.preflight.conftest import Ask, MakeContext, nodes

CHECK, PROBE = "filter.importable", "t1cli.preflight.probes.own_code:group_filter"
SHIPPED = "t1cli.terminal.rollout.group_filter.rewards_differ"


def test_the_shipped_filter_is_there_and_a_misspelt_one_is_not(ask: Ask, context_of: MakeContext) -> None:
    saw = ask(CHECK, context_of("quickstart", f"rollout.dynamic_filter={SHIPPED}"))
    assert (saw.status, saw.found) == ("pass", SHIPPED)
    saw = ask(CHECK, context_of("quickstart", f"rollout.dynamic_filter={SHIPPED}s"))
    assert saw.status == "fail" and "rewards_differs is no function" in saw.found


def test_a_module_of_the_current_directory_alone_is_not_there_for_a_campaign(
    ask: Ask, context_of: MakeContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "own_filter_of_groups.py").write_text("def keep(args, samples):\n    return True\n")
    monkeypatch.chdir(tmp_path)
    context = context_of("quickstart", "rollout.dynamic_filter=own_filter_of_groups.keep")
    saw = ask(CHECK, context)
    assert saw.status == "fail" and "no module `own_filter_of_groups`" in saw.found
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert ask(CHECK, context).status == "pass"


def test_the_node_without_it_is_named_and_without_a_filter_nobody_is_asked(ask: Ask, context_of: MakeContext) -> None:
    good, bad = {"problem": "", "hint": ""}, {"problem": "python3 ended with 1: no module", "hint": ""}
    fleet = nodes(PROBE, good, bad, good)
    saw = ask(CHECK, context_of("t1-strategy15k", "rollout.dynamic_filter=own.keep", fleet=fleet))
    assert saw.status == "fail" and "node-1: python3 ended with 1: no module" in saw.found
    assert ask(CHECK, context_of("quickstart")).status == "skipped"
