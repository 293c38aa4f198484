"""Which framings a family's checkpoints may use; which one a checkpoint does use, its own template decides."""

from __future__ import annotations

from t1cli.terminal.harness.chat.dialect import ChatML, Dialect, Glm
from t1cli.terminal.harness.chat.tool_calls import JsonCalls, KeyValueCalls, ParameterCalls

_QWEN3 = ChatML("qwen3", JsonCalls())
_QWEN3_5 = ChatML("qwen3.5", ParameterCalls(), trims=True)
_GLM_4_7 = Glm("glm-4.7", KeyValueCalls(), newlines=False)


def dialects_of(family: str, *, thinking: bool) -> tuple[Dialect, ...]:
    """The family's framings, to be tried in this order; () for a family without one.

    `t1cli.spec.chat_families` names the same families; a contract test holds the two together.
    """
    glm_4_5 = Glm("glm-4.5", KeyValueCalls(), newlines=True, no_think="" if thinking else "/nothink")
    known: dict[str, tuple[Dialect, ...]] = {
        "qwen3": (_QWEN3,),
        "qwen3_next": (_QWEN3,),
        "qwen3_5": (_QWEN3_5,),
        "glm4_moe": (_GLM_4_7, glm_4_5),
        "glm_moe_dsa": (_GLM_4_7,),
    }
    return known.get(family, ())
