"""One transformer layer of each kind, put together from its attention and feed-forward blocks."""

from __future__ import annotations

from memory_model.architecture import LayerKind
from memory_model.terms import attention, deltanet, experts, feedforward
from memory_model.terms.term import LayerMemory, Piece, Situation

LAYERS_KEPT = 20_000
_LAYERS: dict[tuple[object, ...], LayerMemory] = {}
"""Layers already computed; a search asks for the same few thousands of times."""


def layer_memory(at: Situation, kind: LayerKind) -> LayerMemory:
    """What one layer of `kind` keeps and what lives while it runs; the same on every stage and for every role."""
    layout, workload = at.layout, at.workload
    key = (
        kind,
        at.arch,
        at.tokens,
        (layout.tp, layout.sp, layout.cp, layout.etp),
        attention.recomputes_core(at),
        (workload.experts, workload.kernels, workload.gdn_form, workload.sequence_tokens),
        at.coefficients,
    )
    known = _LAYERS.get(key)
    if known is None:
        if len(_LAYERS) > LAYERS_KEPT:
            _LAYERS.clear()
        known = _LAYERS[key] = _layer_memory(at, kind)
    return known


def _layer_memory(at: Situation, kind: LayerKind) -> LayerMemory:
    first = deltanet.deltanet_pieces(at) if kind.startswith("gdn") else attention.attention_pieces(at)
    moe = kind.endswith("moe")
    second = experts.expert_pieces(at) if moe else feedforward.feedforward_pieces(at)
    pieces = [*first, *second]
    if at.workload.kernels.dropout:
        # One-byte masks of the two residual dropouts (Korthikanti et al. 2022, arXiv 2205.05198).
        pieces.append(Piece("dropout masks", 2.0 * at.arch.hidden_size * at.sequence_tokens))
    ends = _ends(at, kind)
    return LayerMemory(tuple(pieces), max(pair[0] for pair in ends), max(pair[1] for pair in ends))


def _ends(at: Situation, kind: LayerKind) -> tuple[tuple[float, float], tuple[float, float]]:
    """Forward and backward transients of both blocks."""
    if kind.startswith("gdn"):
        first = (deltanet.deltanet_forward_transient(at), deltanet.deltanet_backward_transient(at))
    else:
        first = (2.0 * at.arch.hidden_size * at.tokens, attention.attention_backward_transient(at))
    if kind.endswith("moe"):
        second = (experts.expert_forward_transient(at), experts.expert_backward_transient(at))
    else:
        second = (feedforward.feedforward_forward_transient(at), feedforward.feedforward_backward_transient(at))
    return first, second


def checkpoint_input_bytes(at: Situation) -> float:
    """The input of a checkpointed chunk of layers: the residual stream on the sequence shard."""
    return 2.0 * at.arch.hidden_size * at.sequence_tokens * at.coefficients.activation_scale
