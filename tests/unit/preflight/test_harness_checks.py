"""A user's agent loop, imported where trials run."""

from __future__ import annotations

from tests.unit.preflight.conftest import Ask, MakeContext, nodes

CHECK, PROBE = "harness.importable", "t1cli.preflight.probes.own_code:text_harness"
EXAMPLE = "t1cli.terminal.harness.chat_shell:line"


def test_the_shipped_example_can_be_called_here(ask: Ask, context_of: MakeContext) -> None:
    saw = ask(CHECK, context_of("quickstart", f"rollout.harness={EXAMPLE}"))
    assert (saw.status, saw.found) == ("pass", EXAMPLE)


def test_a_path_of_nothing_fails_with_what_was_probably_meant(ask: Ask, context_of: MakeContext) -> None:
    saw = ask(CHECK, context_of("quickstart", f"rollout.harness={EXAMPLE}s"))
    assert saw.status == "fail" and "has no `lines`" in saw.found and saw.fix == "did you mean `line`?"


def test_the_node_that_lacks_the_users_package_is_named(ask: Ask, context_of: MakeContext) -> None:
    good, bad = {"problem": "", "hint": ""}, {"problem": "no module `my_agents`", "hint": ""}
    context = context_of("t1-strategy15k", "rollout.harness=my_agents.loop:play", fleet=nodes(PROBE, good, bad, good))
    saw = ask(CHECK, context)
    assert saw.status == "fail" and "node-1: no module `my_agents`" in saw.found
    assert saw.fix == "on node-1: install it wherever trials run"


def test_the_built_in_loop_needs_no_import(ask: Ask, context_of: MakeContext) -> None:
    assert ask(CHECK, context_of("quickstart")).status == "skipped"


def test_a_harness_that_t1_names_is_imported_too(ask: Ask, context_of: MakeContext) -> None:
    saw = ask(CHECK, context_of("t1-strategy15k"))
    assert (saw.status, saw.found) == ("pass", "terminus-2")
