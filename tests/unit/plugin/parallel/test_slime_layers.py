"""Our layers recognise slime's by their shape, and refuse others."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib import import_module
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from t1cli.errors import Refused
from t1cli.plugin import hooks
from t1cli.plugin.parallel.slime_layers import QWEN3_5, QWEN3_NEXT, SHAPES, Cuts, Family
from t1cli.plugin.patches.shape import mismatch

pytest.importorskip("megatron.core")


@pytest.fixture(autouse=True)
def kernels(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Names of flash-linear-attention that slime's files import."""
    for name in ("fla", "fla.modules", "fla.ops", "fla.ops.gated_delta_rule"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    for name in ("FusedRMSNormGated", "ShortConvolution"):
        monkeypatch.setattr(sys.modules["fla.modules"], name, object, raising=False)
    monkeypatch.setattr(sys.modules["fla.ops.gated_delta_rule"], "chunk_gated_delta_rule", None, raising=False)
    yield
    for name in [name for name in sys.modules if name.split(".")[0] == "slime_plugins"]:
        del sys.modules[name]


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> Any:
    """slime's layers of both families without Megatron's: linear, full attention."""

    def of(family: Family) -> list[SimpleNamespace]:
        module = import_module(family.module)
        layers = [SimpleNamespace(submodules=SimpleNamespace(self_attention=SimpleNamespace(module=kind)))
                  for kind in (module.Attention, object)]  # fmt: skip
        monkeypatch.setattr(module, family.builder, lambda args, config, vp_stage: SimpleNamespace(layer_specs=layers))
        return layers

    return of


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.name)
def test_slimes_code_has_the_recorded_shape(shape: Any) -> None:
    assert mismatch(import_module(shape.module), shape) == ""


@pytest.mark.parametrize("family,hook", [(QWEN3_5, hooks.qwen3_5_spec), (QWEN3_NEXT, hooks.qwen3_next_spec)])
def test_only_linear_layers_are_split_and_only_under_context_parallelism(family: Family, hook: Any, built: Any) -> None:
    linear, full = (layer.submodules.self_attention for layer in built(family))
    slimes = linear.module
    hook(SimpleNamespace(context_parallel_size=1), None, None)
    assert linear.module is slimes
    hook(SimpleNamespace(context_parallel_size=2), None, None)
    assert issubclass(linear.module, slimes) and linear.module is not slimes and full.module is object


@pytest.mark.parametrize("family,hook", [(QWEN3_5, hooks.qwen3_5_spec), (QWEN3_NEXT, hooks.qwen3_next_spec)])
def test_another_slime_is_refused_with_what_differs(
    family: Family, hook: Any, built: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    linear, _ = (layer.submodules.self_attention for layer in built(family))
    slimes = linear.module
    name = family.layer.name.partition(".")[0]
    monkeypatch.setattr(getattr(import_module(family.module), name), "forward", lambda self, x: x)
    with pytest.raises(Refused, match=rf"{name}\.forward\(self, x\) is not") as caught:
        hook(SimpleNamespace(context_parallel_size=2), None, None)
    assert "gdn_context_parallel=none" in caught.value.diagnostics[0].hint and linear.module is slimes


def test_a_kernel_without_a_first_state_is_refused() -> None:
    from t1cli.plugin.parallel.slime_mixers import Qwen35Mixer

    layer = SimpleNamespace(chunk_gated_delta_rule=lambda q, k, v, g, beta: None, gdn_backend="other")
    with pytest.raises(Refused, match=r"kernel `other` cannot be split: .* takes no `initial_state`"):
        Qwen35Mixer(layer)


def test_a_micro_batch_is_cut_once() -> None:
    import torch

    cuts, bounds = Cuts(), torch.tensor([0, 256, 320])
    first = cuts.of(bounds, 2, 0)
    assert cuts.of(bounds, 2, 0) is first and cuts.of(bounds.clone(), 2, 0) is not first
    assert first.part.num_tokens == 128 and first.way.send_counts == (64, 96)
