"""slime's GatedDeltaNet layers, split over context-parallel ranks instead of gathered on each of them.

slime 0.3.0 lets every rank gather the whole sequence and compute the layer on it
(`slime_plugins/models/hf_attention.py`), which saves nothing in three of four layers of a Qwen3.5 or Qwen3-Next model.
`--spec` names a function that returns the model's layers; ours lets slime's own function build them and then puts a
subclass of slime's attention class into each linear layer. Weights, their names and checkpoints stay slime's.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Final

from t1cli.errors import Refused
from t1cli.plugin.parallel.parts import Exchange, Part
from t1cli.plugin.patches.shape import Shape, mismatch

ATTENTION: Final = Shape(
    "slime_plugins.models.hf_attention",
    "HuggingfaceAttention.forward",
    "(self, hidden_states, attention_mask, key_value_states=None, inference_context=None, rotary_pos_emb=None, "
    "rotary_pos_cos=None, rotary_pos_sin=None, rotary_pos_cos_sin=None, attention_bias=None, packed_seq_params=None, "
    "sequence_len_offset=None, *, inference_params=None)",
    ("self.hf_forward(hidden_states, packed_seq_params)", "_AllGatherForDuplicatedComputation", "2 * cp_size - 1"),
)


@dataclass(frozen=True)
class Family:
    """Where slime builds the layers of a family of models, and how its linear layers are read."""

    builder: str
    """The function that slime's own `--spec` names."""
    layer: Shape
    mixer: str
    """Class of `slime_mixers` that reads a linear layer."""

    @property
    def module(self) -> str:
        return self.layer.module


QWEN3_5: Final = Family(
    "get_qwen3_5_spec",
    Shape(
        "slime_plugins.models.qwen3_5",
        "Qwen3_5GatedDeltaNet.forward",
        "(self, hidden_states, cu_seqlens=None)",
        ("self.in_proj_qkv(hidden_states)", "self.in_proj_z(", "self.in_proj_b(", "self.in_proj_a(", "self.conv1d("),
    ),
    "Qwen35Mixer",
)
QWEN3_NEXT: Final = Family(
    "get_qwen3_next_spec",
    Shape(
        "slime_plugins.models.qwen3_next",
        "Qwen3NextGatedDeltaNet.forward",
        "(self, hidden_states, cu_seqlens=None)",
        ("self.in_proj_qkvz(hidden_states)", "self.in_proj_ba(", "self.fix_query_key_value_ordering(", "self.conv1d("),
    ),
    "Qwen3NextMixer",
)
SHAPES: Final = (ATTENTION, QWEN3_5.layer, QWEN3_NEXT.layer)
"""slime v0.3.0; v0.3.1 has the same."""


def split_spec(family: Family, args: Any, config: Any, vp_stage: int | None) -> Any:
    """The layers of slime's own function, the linear ones split; as they are without context parallelism.

    Raises Refused when slime's code is not what this was written for: the plan counted on the split.
    """
    module = import_module(family.module)
    spec = getattr(module, family.builder)(args, config, vp_stage)
    if args.context_parallel_size == 1:
        return spec
    problems = [problem for shape in (ATTENTION, family.layer) if (problem := mismatch(_module(shape), shape))]
    if problems:
        raise Refused(
            f"slime's GatedDeltaNet is not the one that t1 can split: {'; '.join(problems)}",
            where="trainer.gdn_context_parallel",
            hint="--set trainer.gdn_context_parallel=none gathers the sequence as slime does; plan it again",
        )
    split = split_attention(module.Attention, family)
    for layer in spec.layer_specs:
        attention = layer.submodules.self_attention
        if attention.module is module.Attention:
            attention.module = split
    return spec


def split_attention(attention: type, family: Family) -> type:
    """slime's attention class with a forward pass that computes this rank's part alone."""
    cuts = Cuts()
    mixer_of: Callable[[Any], Any] = getattr(import_module("t1cli.plugin.parallel.slime_mixers"), family.mixer)

    class SplitAttention(attention):  # type: ignore[misc]
        def forward(
            self, hidden_states: Any, attention_mask: Any, *others: Any, packed_seq_params: Any = None, **more: Any
        ) -> tuple[Any, None]:
            """(T / CP, 1, D) of slime's zig-zag shard (of its sequence-parallel part) to the same, and no bias."""
            from t1cli.plugin.parallel.slime_mixers import forward_split

            return forward_split(self, mixer_of(self.linear_attn), hidden_states, packed_seq_params, cuts), None

    return SplitAttention


@dataclass(frozen=True)
class Cut:
    """One rank's part of a micro-batch and the way to it."""

    part: Part
    way: Exchange


class Cuts:
    """The cut of each micro-batch, worked out by its first layer: reading cu_seqlens waits for the GPU."""

    def __init__(self) -> None:
        from torch.utils.weak import WeakTensorKeyDictionary

        self._known: Any = WeakTensorKeyDictionary()

    def of(self, cu_seqlens: Any, ranks: int, rank: int) -> Cut:
        """The cut for slime's padded `cu_seqlens` (N + 1,) of the whole micro-batch."""
        from t1cli.plugin.parallel.parts import cut_stream, exchange

        if cu_seqlens not in self._known:
            lengths = cu_seqlens.diff().tolist()
            parts = cut_stream(lengths, ranks)
            way = exchange(lengths, parts, rank).to(cu_seqlens.device)
            self._known[cu_seqlens] = Cut(parts[rank], way)
        found: Cut = self._known[cu_seqlens]
        return found


def _module(shape: Shape) -> Any:
    return import_module(shape.module)
