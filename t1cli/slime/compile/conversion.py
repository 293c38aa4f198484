"""Arguments of slime's own conversion for Megatron (v0.3.0, `tools/convert_hf_to_torch_dist.py`)."""

from __future__ import annotations

from typing import Final

from t1cli.slime.arguments.table import load_table
from t1cli.slime.compile import rows_model
from t1cli.slime.compile.places import unplaced
from t1cli.slime.compile.row import View
from t1cli.spec.engine import SlimeEngine
from t1cli.spec.experiment import ExperimentSpec

TOOL: Final = "tools/convert_hf_to_torch_dist.py"
_OF_MEGATRON_TOO: Final = ("--mtp-num-layers",)
"""slime declares it anew."""


def conversion_arguments(spec: ExperimentSpec, source: str, target: str) -> tuple[str, ...]:
    """The model's arguments, `--hf-checkpoint` and `--save`. The tool's parser is Megatron's: slime's are left out."""
    assert isinstance(spec.engine, SlimeEngine)
    # The tool knows no context parallelism and need not find t1: slime's own layers have the same weights.
    whole = spec.model_copy(update={"topology": spec.topology.model_copy(update={"cp": 1})})
    table, view = load_table(spec.engine.version), View(whole, unplaced(spec))
    words: list[str] = []
    for flag, values in (pair for row in rows_model.ROWS for pair in row.pairs(view)):
        argument = table.find(flag)
        if argument is not None and (argument.origin == "megatron" or flag in _OF_MEGATRON_TOO):
            words += [flag, *values]
    return (*words, "--hf-checkpoint", source, "--save", target)


def pipeline_stages(num_layers: int, gpus: int) -> int | None:
    """Into how many stages the tool cuts the model; None where it gives up."""
    stages = gpus
    while stages >= 1 and gpus <= num_layers:
        each = -(-num_layers // stages)
        if num_layers - each * (stages - 1) > 0:
            return stages
        if stages % 2:
            return None
        stages //= 2
    return None
