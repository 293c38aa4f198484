"""R9: token budgets against the context wall, with the report's own numbers."""

from __future__ import annotations

import pytest

T1 = "t1-strategy15k"
SUMMARY = ("rollout.context_tokens=86016", "rollout.summary.kind=summarize")


@pytest.mark.catalogue("R9")
def test_R9_the_reports_717_tokens(findings_of):
    (found,) = findings_of(
        "R9", T1, *SUMMARY, "rollout.summary.trigger_tokens=78541", "rollout.summary.max_new_tokens=8192"
    )
    assert found.severity == "error"
    assert "78,541 + 8,192 = 86,733 > 86,016" in found.message and "717 tokens" in found.message
    assert "rollout.summary.max_new_tokens=7475" in found.fix


@pytest.mark.catalogue("R9")
def test_R9_one_token_less_is_no_error(findings_of):
    budget = ("rollout.summary.trigger_tokens=77824", "rollout.summary.max_new_tokens=8192")
    assert all(found.severity == "warning" for found in findings_of("R9", T1, *SUMMARY, *budget))


@pytest.mark.catalogue("R9")
def test_R9_a_whole_turn_can_pass_the_trigger(findings_of):
    (found,) = findings_of(
        "R9",
        T1,
        *SUMMARY,
        "rollout.summary.trigger_tokens=73728",
        "rollout.summary.max_new_tokens=8192",
        "rollout.max_new_tokens_per_turn=8192",
        "rollout.observation_tokens=1024",
    )
    # 73,728 + 8,192 + 1,024 + 8,192 = 91,136
    assert found.severity == "warning" and "91,136 > 86,016" in found.message
    assert "rollout.summary.trigger_tokens=68608" in found.fix
    fixed = ("rollout.summary.trigger_tokens=68608", "rollout.observation_tokens=1024")
    assert findings_of("R9", T1, *SUMMARY, *fixed, "rollout.summary.max_new_tokens=8192") == []


@pytest.mark.catalogue("R9")
def test_R9_one_turn_fills_the_wall(findings_of):
    (found,) = findings_of("R9", "quickstart", "rollout.max_new_tokens_per_turn=400", "rollout.observation_tokens=128")
    assert "400 + 128 = 528 of 512" in found.message
