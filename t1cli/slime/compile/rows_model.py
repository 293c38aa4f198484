"""Rows of `model`: the network, and where its first weights come from."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

from t1cli.slime.compile.hooks import SPLIT_DELTANET
from t1cli.slime.compile.row import Pair, Reading, Row, Updates, View, switch, text, unless, value

A: Final = "model.architecture"
M: Final = "model.megatron"


def splits_deltanet(view: View) -> bool:
    """Whether GatedDeltaNet is split over context-parallel ranks."""
    native = view.spec.trainer.gdn_context_parallel == "native" and view.spec.topology.cp > 1
    return native and view.spec.model.architecture.gated_deltanet is not None


def _spec(view: View) -> Sequence[Pair]:
    given = tuple(view.spec.model.megatron.spec)
    ours = SPLIT_DELTANET.get(given) if len(given) == 2 and splits_deltanet(view) else None
    return (("--spec", ours or given),) if given else ()


def _read_spec(reading: Reading) -> Updates:
    given = reading.get("--spec")
    if not isinstance(given, list):
        return {}
    slimes = next((key for key, ours in SPLIT_DELTANET.items() if list(ours) == given), None)
    if slimes is None:
        return {f"{M}.spec": given}
    return {f"{M}.spec": list(slimes), "trainer.gdn_context_parallel": "native"}


def _moe(view: View) -> bool:
    return view.moe


def _mla(view: View) -> bool:
    return view.spec.model.architecture.mla is not None


def _feed_forward(view: View) -> Sequence[Pair]:
    shape = view.spec.model.architecture
    width = shape.intermediate_size or shape.moe_intermediate_size
    return (("--ffn-hidden-size", (text(width),)),)


def _groups(view: View) -> Sequence[Pair]:
    shape = view.spec.model.architecture
    if shape.mla is not None or shape.num_key_value_heads == shape.num_attention_heads:
        return ()
    return (("--group-query-attention", ()), ("--num-query-groups", (text(shape.num_key_value_heads),)))


def _read_groups(reading: Reading) -> Updates:
    heads = reading.get("--num-attention-heads")
    groups = reading.get("--num-query-groups", heads)
    return {f"{A}.num_key_value_heads": groups} if groups is not None else {}


def _head(view: View) -> Sequence[Pair]:
    shape = view.spec.model.architecture
    width = shape.head_dim if shape.mla is None else shape.mla.qk_nope_head_dim
    return (("--kv-channels", (text(width),)),)


def _read_head(reading: Reading) -> Updates:
    if "--multi-latent-attention" in reading:
        nope, rope = reading.get("--qk-head-dim"), reading.get("--qk-pos-emb-head-dim")
        both = isinstance(nope, int) and isinstance(rope, int)
        return {f"{A}.head_dim": nope + rope} if both else {}  # type: ignore[operator]
    if "--kv-channels" in reading:
        return {f"{A}.head_dim": reading["--kv-channels"]}
    hidden, heads = reading.get("--hidden-size"), reading.get("--num-attention-heads")
    known = isinstance(hidden, int) and isinstance(heads, int) and heads > 0
    return {f"{A}.head_dim": hidden // heads} if known else {}  # type: ignore[operator]


def _gate(view: View) -> Sequence[Pair]:
    if not view.spec.model.architecture.attn_output_gate:
        return ()
    return (("--use-gated-attention", ()), ("--attention-output-gate", ()))


def _post_norms(view: View) -> Sequence[Pair]:
    if not view.spec.model.architecture.post_norms:
        return ()
    return (("--post-self-attn-layernorm", ()), ("--post-mlp-layernorm", ()))


def _no_linear_bias(view: View) -> Sequence[Pair]:
    shape = view.spec.model.architecture
    biased = shape.attn_out_bias or shape.expert_bias
    return () if biased else (("--disable-bias-linear", ()),)


def _layer_pattern(view: View) -> Sequence[Pair]:
    shape = view.spec.model.architecture
    pattern = f"[1]*{shape.num_hidden_layers - shape.first_k_dense}"
    return (("--moe-layer-freq", (f"[0]*{shape.first_k_dense}+{pattern}" if shape.first_k_dense else pattern,)),)


def _read_layer_pattern(reading: Reading) -> Updates:
    given = reading.get("--moe-layer-freq")
    pattern = layer_pattern(str(given)) if given is not None else None
    if pattern is None:
        return {}
    dense = next((index for index, layer in enumerate(pattern) if layer), len(pattern))
    return {f"{A}.first_k_dense": dense} if all(pattern[dense:]) else {}


_PART: Final = re.compile(r"\[([01,\s]*)\](?:\*(\d{1,4}))?")


def layer_pattern(expression: str) -> list[int] | None:
    """`[0]*3+[1]*45` or a literal list as a list of 0 (dense) and 1 (MoE); None for anything else."""
    layers: list[int] = []
    for part in expression.replace(" ", "").split("+"):
        match = _PART.fullmatch(part)
        if match is None:
            return None
        numbers = [int(number) for number in match[1].split(",") if number]
        layers += numbers * int(match[2] or 1)
    return layers


def _mla_pairs(view: View) -> Sequence[Pair]:
    mla = view.spec.model.architecture.mla
    assert mla is not None
    query = (("--q-lora-rank", (text(mla.q_lora_rank),)),) if mla.q_lora_rank is not None else ()
    return (
        ("--multi-latent-attention", ()),
        *query,
        ("--kv-lora-rank", (text(mla.kv_lora_rank),)),
        ("--qk-head-dim", (text(mla.qk_nope_head_dim),)),
        ("--qk-pos-emb-head-dim", (text(mla.qk_rope_head_dim),)),
        ("--v-head-dim", (text(mla.v_head_dim),)),
    )


_MLA: Final = {
    "--q-lora-rank": "q_lora_rank",
    "--kv-lora-rank": "kv_lora_rank",
    "--qk-head-dim": "qk_nope_head_dim",
    "--qk-pos-emb-head-dim": "qk_rope_head_dim",
    "--v-head-dim": "v_head_dim",
}


def _read_mla(reading: Reading) -> Updates:
    if "--multi-latent-attention" not in reading:
        return {}
    return {f"{A}.mla.{name}": reading[flag] for flag, name in _MLA.items() if flag in reading}


_POSITIONS: Final[dict[str, tuple[Pair, ...]]] = {
    "rope": (("--position-embedding-type", ("rope",)),),
    "rotary": (("--use-rotary-position-embeddings", ()),),
    "none": (("--position-embedding-type", ("none",)),),
}


def _positions(view: View) -> Sequence[Pair]:
    return _POSITIONS[view.spec.model.megatron.position_embedding]


def _read_positions(reading: Reading) -> Updates:
    kind = reading.get("--position-embedding-type")
    if kind in ("rope", "none"):
        return {f"{M}.position_embedding": kind}
    return {f"{M}.position_embedding": "rotary"} if "--use-rotary-position-embeddings" in reading else {}


def _mtp(view: View) -> Sequence[Pair]:
    if not view.spec.model.train_mtp:
        return ()
    return (
        ("--mtp-num-layers", (text(view.spec.model.architecture.mtp_num_layers),)),
        ("--enable-mtp-training", ()),
    )


def _read_mtp(reading: Reading) -> Updates:
    if "--enable-mtp-training" not in reading or "--mtp-num-layers" not in reading:
        return {}
    return {"model.train_mtp": True, f"{A}.mtp_num_layers": reading["--mtp-num-layers"]}


def _shared(view: View) -> Sequence[Pair]:
    width = view.spec.model.architecture.shared_expert_intermediate_size
    return (("--moe-shared-expert-intermediate-size", (text(width),)),) if width else ()


def _read_as(flag: str, key: str) -> Any:
    return lambda reading: {key: reading[flag]} if flag in reading else {}


ROWS: Final[tuple[Row, ...]] = (
    Row(("--spec",), (f"{M}.spec", "trainer.gdn_context_parallel"), _spec, _read_spec),
    value("--num-layers", f"{A}.num_hidden_layers"),
    value("--hidden-size", f"{A}.hidden_size"),
    Row(
        ("--ffn-hidden-size",), (f"{A}.intermediate_size", f"{A}.moe_intermediate_size"), _feed_forward,
        _read_as("--ffn-hidden-size", f"{A}.intermediate_size"),
    ),
    value("--num-attention-heads", f"{A}.num_attention_heads"),
    Row(("--group-query-attention", "--num-query-groups"), (f"{A}.num_key_value_heads",), _groups, _read_groups),
    Row(("--kv-channels",), (f"{A}.head_dim",), _head, _read_head),
    value("--vocab-size", f"{A}.vocab_size"),
    unless("--untie-embeddings-and-output-weights", f"{A}.tie_word_embeddings"),
    switch("--add-qkv-bias", f"{A}.qkv_bias"),
    Row(("--disable-bias-linear",), (f"{A}.attn_out_bias",), _no_linear_bias,
        lambda reading: {f"{A}.attn_out_bias": False} if "--disable-bias-linear" in reading else {}),
    switch("--qk-layernorm", f"{A}.qk_layernorm"),
    Row(("--use-gated-attention", "--attention-output-gate"), (f"{A}.attn_output_gate",), _gate,
        lambda reading: {f"{A}.attn_output_gate": True} if "--attention-output-gate" in reading else {}),
    Row(("--post-self-attn-layernorm", "--post-mlp-layernorm"), (f"{A}.post_norms",), _post_norms,
        lambda reading: {f"{A}.post_norms": True} if "--post-mlp-layernorm" in reading else {}),
    Row(("--multi-latent-attention", *_MLA), (f"{A}.mla",), _mla_pairs, _read_mla, _mla),
    value("--num-experts", f"{A}.num_experts", _moe),
    value("--moe-router-topk", f"{A}.num_experts_per_tok", _moe),
    value("--moe-ffn-hidden-size", f"{A}.moe_intermediate_size", _moe),
    Row(("--moe-shared-expert-intermediate-size",), (f"{A}.shared_expert_intermediate_size",), _shared,
        _read_as("--moe-shared-expert-intermediate-size", f"{A}.shared_expert_intermediate_size"), _moe),
    switch("--moe-shared-expert-gate", f"{A}.shared_expert_gate", _moe),
    Row(("--moe-layer-freq",), (f"{A}.first_k_dense",), _layer_pattern, _read_layer_pattern, _moe),
    switch("--moe-router-enable-expert-bias", f"{A}.router_bias", _moe),
    Row(("--mtp-num-layers", "--enable-mtp-training"), ("model.train_mtp",), _mtp, _read_mtp),
    value("--normalization", f"{M}.normalization"),
    value("--norm-epsilon", f"{M}.norm_epsilon"),
    switch("--apply-layernorm-1p", f"{M}.zero_centered_norm"),
    switch("--swiglu", f"{M}.swiglu"),
    Row(("--position-embedding-type", "--use-rotary-position-embeddings"), (f"{M}.position_embedding",), _positions,
        _read_positions),
    value("--rotary-base", f"{M}.rotary_base"),
    value("--rotary-percent", f"{M}.rotary_percent"),
    unless("--no-rope-fusion", f"{M}.rope_fusion"),
    value("--rotary-scaling-factor", f"{M}.rotary_scaling_factor"),
    value("--mscale", f"{M}.mscale"),
    value("--mscale-all-dim", f"{M}.mscale_all_dim"),
    value("--make-vocab-size-divisible-by", f"{M}.vocab_divisor"),
    value("--moe-router-score-function", f"{M}.router_score", _moe),
    switch("--moe-router-pre-softmax", f"{M}.router_pre_softmax", _moe),
    value("--moe-router-topk-scaling-factor", f"{M}.router_scaling", _moe),
    value("--moe-router-num-groups", f"{M}.router_groups", _moe),
    value("--moe-router-group-topk", f"{M}.router_group_topk", _moe),
    value("--moe-router-load-balancing-type", f"{M}.router_balancing", _moe),
    value("--moe-router-bias-update-rate", f"{M}.router_bias_update_rate", _moe),
    value("--moe-router-dtype", f"{M}.router_dtype", _moe),
    value("--moe-token-drop-policy", f"{M}.token_drop_policy", _moe),
    switch("--moe-grouped-gemm", f"{M}.grouped_gemm", _moe),
    switch("--moe-permute-fusion", f"{M}.permute_fusion", _moe),
    value("--hf-checkpoint", "model.checkpoints.hf"),
    value("--ref-load", "model.checkpoints.torch_dist"),
)  # fmt: skip
