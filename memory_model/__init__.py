"""Per-GPU memory of Megatron RL training. Standard library only; knows nothing of YAML, slime or t1cli.

In:  `Architecture` (from `model(name)`, `architecture_from(mapping)` or your own), `Layout`, `Workload`, `Device`.
Out: `predict(arch, layout, workload, device, role) -> Prediction`: per pipeline stage and phase every term alive, GiB.

    why_impossible(arch, layout) -> reasons, empty when Megatron can build it      wasted(arch, layout) -> M3, M4
    text_parameters(arch).total, layer_parameters(arch, kind), local_counts(...)   exact parameter counts
    cap_advice(workload, cp)                                                       whether the packing cap binds (M7)
"""

from memory_model.architecture import Architecture, GatedDeltaNet, MultiLatentAttention, Vision
from memory_model.coefficients import DEFAULT, Coefficients
from memory_model.device import Device
from memory_model.layout import Layout, stages, why_impossible
from memory_model.models import architecture_from, known_models, model
from memory_model.packing import CapAdvice, cap_advice
from memory_model.parameters import Parameters, text_parameters
from memory_model.predict import predict
from memory_model.prediction import Phase, Prediction, StagePrediction
from memory_model.waste import Waste, wasted
from memory_model.workload import Experts, Kernels, Loss, Optimizer, Recompute, Workload

__all__ = [
    "DEFAULT",
    "Architecture",
    "CapAdvice",
    "Coefficients",
    "Device",
    "Experts",
    "GatedDeltaNet",
    "Kernels",
    "Layout",
    "Loss",
    "MultiLatentAttention",
    "Optimizer",
    "Parameters",
    "Phase",
    "Prediction",
    "Recompute",
    "StagePrediction",
    "Vision",
    "Waste",
    "Workload",
    "architecture_from",
    "cap_advice",
    "known_models",
    "model",
    "predict",
    "stages",
    "text_parameters",
    "wasted",
    "why_impossible",
]
