"""Kept and transient bytes of a dense feed-forward block."""

from __future__ import annotations

from memory_model.terms.attention import BF16
from memory_model.terms.term import Piece, Situation

_NORM = frozenset({"layernorm", "mlp"})
_MLP = frozenset({"mlp"})


def feedforward_pieces(at: Situation) -> list[Piece]:
    """Input, normalised input, up-projection (twice the width when gated) and activation output."""
    h, f = at.arch.hidden_size, at.arch.intermediate_size / at.layout.tp
    up = f * (2 if at.arch.gated_mlp else 1)
    return [
        Piece("feed-forward input", BF16 * h * at.sequence_tokens),
        Piece("feed-forward norm", at.linear_input_bytes * h * at.sequence_tokens, _NORM),
        Piece("up-projection", BF16 * up * at.tokens, _MLP),
        Piece("activation", at.linear_input_bytes * f * at.tokens, _MLP),
    ]


def feedforward_backward_transient(at: Situation) -> float:
    """Gradient of the up-projection, and the block's output and residual gradients.

    At the activation's backward its own output is already freed and replaced by the gradient of the same size.
    """
    up = at.arch.intermediate_size / at.layout.tp * (2 if at.arch.gated_mlp else 1)
    return BF16 * up * at.tokens + 2 * BF16 * at.arch.hidden_size * at.sequence_tokens


def feedforward_forward_transient(at: Situation) -> float:
    """The gathered input of the column-parallel projection."""
    return BF16 * at.arch.hidden_size * at.tokens
