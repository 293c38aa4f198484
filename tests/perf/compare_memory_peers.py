"""Two public estimators and this one on the measured cases each can express, in one run.

    python tests/perf/compare_memory_peers.py --simumax CHECKOUT --bridge CHECKOUT

CHECKOUT is a clone of github.com/MooreThreads/SimuMax, or of github.com/NVIDIA-NeMo/Megatron-Bridge. SimuMax needs
numpy, pandas, sympy, tabulate, matplotlib, tqdm and graphviz in this Python. No code of theirs is kept here.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import importlib.util
import io
import json
import sys
import tempfile
import time
import types
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from memory_model.case import Case, load_cases
from memory_model.evaluate import evaluate
from memory_model.predict import predict, predict_once
from memory_model.search import search
from memory_model.t1_report import CARD, MODEL, WALL_TOKENS, workload

GIB = 2**30
Estimator = Callable[[Case], float]


@dataclass(frozen=True)
class Peer:
    """One estimator: which cases it can express, and its answer in GiB for the stage that was read."""

    name: str
    cannot: Callable[[Case], str]
    estimate: Estimator


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table, the means, and the time of one call."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--simumax", type=Path)
    parser.add_argument("--bridge", type=Path)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    cases = [case for case in load_cases() if case.kind == "max_allocated" and case.scope == "peak"]
    cases = [case for case in cases if case.measured_gib >= 8]
    ours = {row.id: row.predicted_gib for row in evaluate(cases)}
    peers = [build(path) for build, path in ((simumax, options.simumax), (bridge, options.bridge)) if path]
    body = {
        "peers": [_compare(peer, cases, ours) for peer in peers],
        "predict": _own_times(),
        "simumax": _simumax_times(options.simumax) if options.simumax else None,
        "search": _search_rate(),
    }
    print(json.dumps(body, indent=1) if options.json else _text(body))
    return 0


def _compare(peer: Peer, cases: Sequence[Case], ours: dict[str, float | None]) -> dict[str, Any]:
    rows, refused = [], {}
    for case in cases:
        if why := peer.cannot(case):
            refused[case.id] = why
            continue
        theirs, mine = peer.estimate(case), ours[case.id]
        assert mine is not None
        rows.append(
            {
                "id": case.id,
                "measured_gib": case.measured_gib,
                "theirs_pct": 100 * (theirs / case.measured_gib - 1),
                "ours_pct": 100 * (mine / case.measured_gib - 1),
            }
        )
    return {
        "name": peer.name,
        "rows": rows,
        "cannot_express": refused,
        "their_mae_pct": sum(abs(row["theirs_pct"]) for row in rows) / len(rows),
        "our_mae_pct": sum(abs(row["ours_pct"]) for row in rows) / len(rows),
    }


def _limits(case: Case) -> str:
    """What neither peer has a word for."""
    work = case.workload
    if case.arch.gated_deltanet is not None:
        return "GatedDeltaNet"
    if work.lora_rank or work.optimizer.offload_fraction or work.optimizer.moment_bytes != 4:
        return "LoRA, optimizer offload or bf16 moments"
    if work.train_mtp or work.kernels.fp8 or work.kernels.cuda_graphs or work.experts.dispatcher == "flex":
        return "MTP, fp8, CUDA graphs or the flex dispatcher"
    return ""


# --- SimuMax ---------------------------------------------------------------------------------------------------------


def simumax(path: Path) -> Peer:
    """SimuMax from a checkout, with the switches of its own B200 table (Transformer Engine 2.11)."""
    sys.path.insert(0, str(path))

    def cannot(case: Case) -> str:
        if why := _limits(case):
            return why
        if case.layout.vpp > 1 or not case.workload.kernels.flash_attention:
            return "virtual pipeline is a preview; unfused attention"
        if case.workload.recompute.kind not in ("none",):
            return "recomputation is experimental"
        return ""

    return Peer("SimuMax", cannot, lambda case: _simumax_gib(path, case))


def _simumax_gib(path: Path, case: Case) -> float:
    model = _simumax_run(path, case)
    found = model.get_pp_stage_peak_mem(model.analysis_mem(), "peak_mem", toG=True)
    stages = {"first_stage": 0, "last_stage": case.layout.pp - 1}
    values = {stages.get(name, 1): value for name, value in found.items()}
    wanted = {"last": case.layout.pp - 1, "max": None}.get(case.stage, None if case.stage == "max" else case.stage)
    if wanted is None:
        return float(max(values.values()))
    return float(values[min(values, key=lambda stage: abs(stage - int(wanted)))])


def _simumax_run(path: Path, case: Case) -> Any:
    config = importlib.import_module("simumax.core.config")
    perf = importlib.import_module("simumax.core.perf_llm")
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
        files = {"model": _simumax_model(case), "strategy": _simumax_strategy(case)}
        for name, values in files.items():
            (Path(folder) / f"{name}.json").write_text(json.dumps(values))
        model = perf.PerfLLM()
        model.configure(
            strategy_config=config.StrategyConfig.init_from_config_file(f"{folder}/strategy.json"),
            model_config=config.ModelConfig.init_from_config_file(f"{folder}/model.json"),
            system_config=config.SystemConfig.init_from_config_file(
                str(path / "configs" / "system" / "b200_bf16_ceperm.json")
            ),
        )
        model.model_config.padded_vocab_size = True
        model.model_config.make_vocab_size_divisible_by = case.layout.vocab_multiple
        model.run_estimate()
    return model


def _simumax_model(case: Case) -> dict[str, Any]:
    arch = case.arch
    values: dict[str, Any] = {
        "model_type": "moe" if arch.is_moe else "dense",
        "model_name": "case",
        "hidden_size": arch.hidden_size,
        "head_num": arch.num_attention_heads,
        "kv_head_num": arch.num_key_value_heads,
        "head_size": arch.head_dim,
        "intermediate_size": arch.intermediate_size or arch.moe_intermediate_size,
        "layer_num": arch.num_hidden_layers,
        "vocab_size": arch.vocab_size,
        "use_swiglu": arch.gated_mlp,
    }
    if arch.is_moe:
        values |= {
            "moe_ffn_hidden_size": arch.moe_intermediate_size,
            "moe_shared_expert_intermediate_size": arch.shared_expert_intermediate_size or None,
            "dense_layers": arch.first_k_dense,
            "expert_num": arch.num_experts,
            "topk": arch.num_experts_per_tok,
        }
    if arch.mla:
        values |= {
            "attention_type": "mla",
            "v_head_dim": arch.mla.v_head_dim,
            "qk_head_dim": arch.mla.qk_nope_head_dim,
            "qk_pos_emb_head_dim": arch.mla.qk_rope_head_dim,
            "q_lora_rank": arch.mla.q_lora_rank,
            "kv_lora_rank": arch.mla.kv_lora_rank,
        }
    return values


def _simumax_strategy(case: Case) -> dict[str, Any]:
    layout, work = case.layout, case.workload
    return {
        "seq_len": work.sequence_tokens,
        "micro_batch_size": work.sequences_per_micro_batch,
        "micro_batch_num": work.micro_batches,
        "dtype": "bf16",
        "world_size": layout.world,
        "tp_size": layout.tp,
        "pp_size": layout.pp,
        "cp_size": layout.cp,
        "ep_size": layout.ep,
        "etp_size": layout.etp,
        "moe_dispatcher_policy": "all2all",
        "enable_sequence_parallel": layout.sp,
        "zero_state": 1,
        "use_fused_norm": True,
        "use_flash_sdp": True,
        "use_math_sdp": False,
        "use_fp32_accum_grad": True,
        "grad_reduce_in_bf16": work.optimizer.grad_bytes == 2,
        "enable_recompute": False,
        "dispatch_probs": True,
        "cross_entropy_loss_fusion": work.loss.kind != "cross_entropy",
        "te_version": "2.11.0",
        "overlap_grad_reduce": False,
        "mem_factor": 0.94,
    }


# --- Megatron-Bridge -------------------------------------------------------------------------------------------------


def bridge(path: Path) -> Peer:
    """Megatron-Bridge's one-file estimator, loaded with stand-ins for the modules it imports."""
    module = _load_bridge(path / "src/megatron/bridge/training/utils/theoretical_memory_utils.py")

    def cannot(case: Case) -> str:
        if why := _limits(case):
            return why
        if case.arch.mla:
            return "multi-latent attention"
        if case.workload.recompute.kind != "none":
            return "assumes selective recomputation of attention"
        later = case.layout.pp > 1 and case.stage not in ("0", "max")
        return "one figure for the most loaded stage, the reading is of another" if later else ""

    return Peer("Megatron-Bridge", cannot, lambda case: _bridge_gib(module, case))


def _load_bridge(path: Path) -> Any:
    def padded(vocab: int, multiple: int, tp: int, **_: Any) -> int:
        return -(-vocab // (multiple * tp)) * multiple * tp

    functional = types.SimpleNamespace(silu=object())
    stand_ins: dict[str, dict[str, Any]] = {
        "torch": {},
        "torch.nn": {},
        "torch.nn.functional": vars(functional),
        "megatron": {},
        "megatron.bridge": {},
        "megatron.bridge.training": {},
        "megatron.bridge.training.config": {"ConfigContainer": object},
        "megatron.bridge.utils": {},
        "megatron.bridge.utils.vocab_utils": {"calculate_padded_vocab_size": padded},
    }
    kept = {name: sys.modules.get(name) for name in stand_ins}
    for name, values in stand_ins.items():
        sys.modules[name] = types.ModuleType(name)
        vars(sys.modules[name]).update(values)
    try:
        spec = importlib.util.spec_from_file_location("bridge_estimator", path)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    finally:
        for name, old in kept.items():
            if old is None:
                del sys.modules[name]
            else:
                sys.modules[name] = old
    return module


def _bridge_gib(module: Any, case: Case) -> float:
    arch, layout, work = case.arch, case.layout, case.workload
    model = types.SimpleNamespace(
        num_layers=arch.num_hidden_layers,
        hidden_size=arch.hidden_size,
        ffn_hidden_size=arch.moe_intermediate_size or arch.intermediate_size,
        moe_ffn_hidden_size=arch.moe_intermediate_size or None,
        num_attention_heads=arch.num_attention_heads,
        num_query_groups=arch.num_key_value_heads,
        kv_channels=arch.head_dim,
        num_moe_experts=arch.num_experts or None,
        moe_router_topk=arch.num_experts_per_tok,
        moe_layer_freq=1,
        moe_shared_expert_intermediate_size=arch.shared_expert_intermediate_size or None,
        gated_linear_unit=arch.gated_mlp,
        activation_func=module.F.silu,
        vocab_size=arch.vocab_size,
        should_pad_vocab=True,
        make_vocab_size_divisible_by=layout.vocab_multiple,
        share_embeddings_and_output_weights=arch.tie_word_embeddings,
        tensor_model_parallel_size=layout.tp,
        pipeline_model_parallel_size=layout.pp,
        virtual_pipeline_model_parallel_size=layout.vpp if layout.vpp > 1 else None,
        context_parallel_size=layout.cp,
        expert_model_parallel_size=layout.ep,
        expert_tensor_parallel_size=layout.etp,
        seq_length=work.sequence_tokens,
        sequence_parallel=True,
        recompute_granularity="selective",
        multi_latent_attention=False,
        num_layers_in_first_pipeline_stage=layout.first_stage_layers,
        num_layers_in_last_pipeline_stage=layout.last_stage_layers,
    )
    config = types.SimpleNamespace(
        model=model,
        train=types.SimpleNamespace(micro_batch_size=work.sequences_per_micro_batch),
        optimizer=types.SimpleNamespace(use_distributed_optimizer=work.optimizer.distributed),
        data_parallel_size=layout.dp,
        ddp=types.SimpleNamespace(grad_reduce_in_fp32=work.optimizer.grad_bytes == 4),
        world_size=layout.world,
    )
    if hasattr(module, "estimate_training_memory"):
        found = module.estimate_training_memory(config, num_microbatches=work.micro_batches)
        parts = [*found.model_state_components, found.activation]
        return float(sum(part.memory_bytes for part in parts)) / GIB
    states = module.compute_weight_and_optimizer_memory(config)
    activations = module.compute_activation_memory(config, num_microbatches=work.micro_batches)
    return float(states + activations) / GIB


# --- times -----------------------------------------------------------------------------------------------------------


def _own_times() -> dict[str, float]:
    case = next(case for case in load_cases() if case.id == "SMX-01")
    inputs = (case.arch, case.layout, case.workload, case.device)
    return {
        "repeated_call_us": 1e6 * _time(lambda: predict(*inputs), 2000),
        "first_call_us": 1e6 * _time(lambda: predict_once(*inputs), 500),
    }


def _simumax_times(path: Path) -> dict[str, float]:
    """SimuMax's own call, warm: configure, estimate, memory analysis."""
    case = next(case for case in load_cases() if case.id == "SMX-01")
    return {"call_us": 1e6 * _time(lambda: _simumax_gib(path, case), 5)}


def _search_rate() -> dict[str, float]:
    from memory_model.models import model

    found = search(model(MODEL), 64, workload(WALL_TOKENS, "native_cp"), CARD)
    return {"layouts": found.searched, "seconds": found.seconds, "layouts_per_second": found.per_second}


def _time(call: Callable[[], object], times: int) -> float:
    """Median seconds of a call."""
    call()
    taken = []
    for _ in range(times):
        started = time.perf_counter()
        call()
        taken.append(time.perf_counter() - started)
    return median(taken)


def _text(body: dict[str, Any]) -> str:
    lines = []
    for peer in body["peers"]:
        lines.append(
            f"{peer['name']}: their mean absolute error {peer['their_mae_pct']:.2f} %, ours "
            f"{peer['our_mae_pct']:.2f} % on the same {len(peer['rows'])} rows"
        )
        lines += [
            f"  {row['id']:8} measured {row['measured_gib']:8.3f}  theirs {row['theirs_pct']:+7.2f} %  "
            f"ours {row['ours_pct']:+6.2f} %"
            for row in peer["rows"]
        ]
        lines += [f"  {case} cannot express: {why}" for case, why in peer["cannot_express"].items()]
    own = body["predict"]
    lines.append(f"predict: {own['repeated_call_us']:.1f} µs repeated, {own['first_call_us']:.0f} µs computed anew")
    if body["simumax"]:
        call = body["simumax"]["call_us"]
        lines.append(
            f"SimuMax's call: {call / 1000:.1f} ms; {call / own['repeated_call_us']:,.0f} × repeated, "
            f"{call / own['first_call_us']:,.0f} × computed anew"
        )
    rate = body["search"]
    lines.append(
        f"search: {rate['layouts']} layouts in {rate['seconds']:.1f} s, {rate['layouts_per_second']:.0f} a second"
    )
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
