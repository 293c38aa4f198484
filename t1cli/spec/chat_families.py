"""Families of models (`model.family`) whose chats can be rendered without ever changing what was rendered before."""

from __future__ import annotations

from typing import Final

APPEND_ONLY_FAMILIES: Final = frozenset({"t1-tiny", "qwen3", "qwen3_next", "qwen3_5", "glm4_moe", "glm_moe_dsa"})
"""Qwen3, Qwen3-Next, Qwen3.5, GLM-4.5 to 4.7, GLM-5, and the embedded engine's own."""
