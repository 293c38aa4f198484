"""F1 and C10 from the spec alone: chats that cannot be appended to, and two settings of thinking."""

from __future__ import annotations

import pytest

T1, GRPO = "t1-strategy15k", "qwen3-8b-grpo"


@pytest.mark.catalogue("F1")
def test_F1_a_family_without_an_append_only_template_is_a_notice(findings_of):
    assert findings_of("F1", T1) == findings_of("F1", GRPO) == []
    (finding,) = findings_of("F1", GRPO, "model.family=llama3")
    assert finding.severity == "notice" and "no append-only chat template for family `llama3`" in finding.message
    assert "glm4_moe" in finding.fix and "qwen3_5" in finding.fix


def test_C10_evaluation_and_training_think_alike(findings_of):
    def told(*overrides: str) -> list[str]:
        return [finding.message for finding in findings_of("C10", T1, *overrides) if "thinking" in finding.message]

    assert told() == told('evaluation.thinking="on"', 'rollout.thinking="on"') == []
    assert told('rollout.thinking="on"') == ["evaluation runs with thinking off, training with thinking on"]
