"""An architecture straight from a Hugging Face `config.json` (Llama, Qwen, Mixtral, GLM, DeepSeek, Kimi, gpt-oss)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from memory_model.architecture import Architecture, GatedDeltaNet, MultiLatentAttention, Vision

Config = Mapping[str, Any]

KNOWN_TYPES = frozenset(
    {
        "llama", "qwen2", "qwen3", "qwen3_moe", "qwen3_next", "qwen3_5_text", "qwen3_5_moe_text", "mixtral",
        "glm4", "glm4_moe", "deepseek_v2", "deepseek_v3", "kimi_k2", "gpt_oss",
    }
)  # fmt: skip
_QK_NORM = frozenset({"qwen3", "qwen3_moe", "qwen3_next", "qwen3_5_text", "qwen3_5_moe_text"})
_HYBRID = frozenset({"qwen3_next", "qwen3_5_text", "qwen3_5_moe_text"})
_CORRECTION_BIAS = frozenset({"deepseek_v3", "kimi_k2", "glm4_moe"})


def architecture_from_hf(config: Config, *, vision: str = "left_out") -> Architecture:
    """The shape that a `config.json` describes; ValueError names the model type when it is not a known one.

    Facts that live in modelling code and not in the file (norms on q and k, biases, gates) follow the model type.
    """
    text = config.get("text_config", config)
    kind = str(text.get("model_type", config.get("model_type", "")))
    if kind not in KNOWN_TYPES:
        raise ValueError(f"model_type {kind!r} is not known; known: {', '.join(sorted(KNOWN_TYPES))}")
    heads = int(text["num_attention_heads"])
    head_dim = int(text.get("head_dim") or text["hidden_size"] // heads)
    mla = _latent(text)
    return Architecture(
        hidden_size=int(text["hidden_size"]),
        num_hidden_layers=int(text["num_hidden_layers"]),
        num_attention_heads=heads,
        num_key_value_heads=int(text.get("num_key_value_heads") or heads),
        head_dim=mla.v_head_dim if mla else head_dim,
        vocab_size=int(text["vocab_size"]),
        tie_word_embeddings=bool(text.get("tie_word_embeddings", config.get("tie_word_embeddings", False))),
        qkv_bias=bool(text.get("attention_bias", kind == "qwen2")) and mla is None,
        attn_out_bias=kind == "gpt_oss",
        qk_layernorm=kind in _QK_NORM or bool(text.get("use_qk_norm", False)),
        attn_output_gate=kind in _HYBRID and bool(text.get("attn_output_gate", True)),
        post_norms=kind == "glm4",
        attention_sinks=kind == "gpt_oss",
        mtp_num_layers=int(text.get("num_nextn_predict_layers") or text.get("mtp_num_hidden_layers") or 0),
        gated_deltanet=_deltanet(text) if kind in _HYBRID else None,
        mla=mla,
        vision=_vision(config, vision),
        **_feedforward(text, kind),
    )


def _feedforward(text: Config, kind: str) -> dict[str, Any]:
    experts = int(text.get("n_routed_experts") or text.get("num_local_experts") or text.get("num_experts") or 0)
    dense = int(text.get("intermediate_size") or 0)
    if not experts:
        return {"intermediate_size": dense}
    width = int(text.get("moe_intermediate_size") or dense)
    shared = int(text.get("shared_expert_intermediate_size") or width * int(text.get("n_shared_experts") or 0))
    return {
        "intermediate_size": dense,
        "num_experts": experts,
        "num_experts_per_tok": int(text["num_experts_per_tok"]),
        "moe_intermediate_size": width,
        "shared_expert_intermediate_size": shared,
        "shared_expert_gate": kind in _HYBRID and shared > 0,
        "first_k_dense": int(text.get("first_k_dense_replace") or 0),
        "router_bias": kind in _CORRECTION_BIAS,
        "router_linear_bias": kind == "gpt_oss",
        "expert_bias": kind == "gpt_oss",
    }


def _latent(text: Config) -> MultiLatentAttention | None:
    if not text.get("kv_lora_rank"):
        return None
    return MultiLatentAttention(
        kv_lora_rank=int(text["kv_lora_rank"]),
        qk_nope_head_dim=int(text["qk_nope_head_dim"]),
        qk_rope_head_dim=int(text["qk_rope_head_dim"]),
        v_head_dim=int(text["v_head_dim"]),
        q_lora_rank=int(text["q_lora_rank"]) if text.get("q_lora_rank") else None,
    )


def _deltanet(text: Config) -> GatedDeltaNet:
    return GatedDeltaNet(
        full_attention_interval=int(text.get("full_attention_interval", 4)),
        num_key_heads=int(text["linear_num_key_heads"]),
        num_value_heads=int(text["linear_num_value_heads"]),
        key_head_dim=int(text["linear_key_head_dim"]),
        value_head_dim=int(text["linear_value_head_dim"]),
        conv_kernel_dim=int(text["linear_conv_kernel_dim"]),
    )


def _vision(config: Config, use: str) -> Vision | None:
    tower = config.get("vision_config")
    if not tower:
        return None
    return Vision(vision_parameters(tower), "frozen" if use == "frozen" else "left_out")


def vision_parameters(tower: Config) -> int:
    """Parameters of a Qwen3-VL vision tower with its merger (patches, positions, blocks with biases, two linears)."""
    h, f = int(tower["hidden_size"]), int(tower["intermediate_size"])
    patch = int(tower["patch_size"]) ** 2 * int(tower.get("temporal_patch_size", 2)) * int(tower.get("in_channels", 3))
    block = 4 * h + 3 * h * h + 3 * h + h * h + h + 2 * h * f + f + h
    merged = h * int(tower.get("spatial_merge_size", 2)) ** 2
    out = int(tower["out_hidden_size"])
    merger = 2 * h + merged * merged + merged + merged * out + out
    positions = int(tower.get("num_position_embeddings", 0)) * h
    return h * patch + h + positions + int(tower["depth"]) * block + merger
