"""`t1 checkpoint convert`: slime's own tool for the weights that `--ref-load` wants, shown or run on this machine."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from t1cli.errors import BadInput, Refused
from t1cli.run.checkpoint_manifest import TRACKER
from t1cli.slime.compile.conversion import TOOL, conversion_arguments, pipeline_stages
from t1cli.spec.engine import SlimeEngine
from t1cli.spec.load import LoadedSpec

FORMAT_VERSION: Final = 1
_RELEASE: Final = "release"


@dataclass(frozen=True)
class Conversion:
    """One run of the tool."""

    source: str
    target: str
    argv: tuple[str, ...]
    env: Mapping[str, str]

    def to_json(self) -> dict[str, Any]:
        """One JSON object with `format_version` first."""
        said = {"source": self.source, "target": self.target, "argv": list(self.argv), "env": dict(self.env)}
        return {"format_version": FORMAT_VERSION, **said, "converted": is_converted(Path(self.target))}


def conversion_of(loaded: LoadedSpec, gpus: int | None = None) -> Conversion:
    """The command for a spec's weights. Raises BadInput where the spec does not name both, or the GPUs do not do."""
    spec, engine = loaded.spec, loaded.spec.engine
    if not isinstance(engine, SlimeEngine):
        raise BadInput("the embedded engine has weights of its own", where=loaded.where("engine.kind"))
    source, target = spec.model.checkpoints.hf, spec.model.checkpoints.torch_dist
    if source is None or target is None:
        missing = "hf" if source is None else "torch_dist"
        where = loaded.where("model.checkpoints")
        raise BadInput(f"model.checkpoints.{missing} is not given", where, "from there, into there: both are needed")
    layers = spec.model.architecture.num_hidden_layers
    wanted = min(spec.hardware.gpus_per_node or 1, layers) if gpus is None else gpus
    if pipeline_stages(layers, wanted) is None:
        fitting = [str(n) for n in range(1, 17) if pipeline_stages(layers, n) is not None]
        raise BadInput(
            f"slime's tool cannot cut {layers} layers over {wanted} GPUs", "--gpus", f"it can over {', '.join(fitting)}"
        )
    paths = (engine.slime_dir, engine.megatron_dir, *((engine.t1_dir,) if engine.t1_dir else ()))
    launcher = ("torchrun", "--nproc-per-node", str(wanted), f"{engine.slime_dir}/{TOOL}")
    argv = (*launcher, *conversion_arguments(spec, source, target))
    return Conversion(source, target, argv, {"PYTHONPATH": ":".join(paths), "CUDA_DEVICE_MAX_CONNECTIONS": "1"})


def run_conversion(conversion: Conversion) -> None:
    """Run it here, its output on stderr. Raises Refused where something is missing or the tool fails."""
    program = shutil.which(conversion.argv[0])
    tool = next(word for word in conversion.argv if word.endswith(TOOL))
    missing = [place for place in (tool, conversion.source) if not Path(place).exists()]
    if program is None or missing:
        what = ", ".join([*([] if program else ["torchrun (not on PATH)"]), *missing])
        raise Refused(f"not on this machine: {what}", hint="leave --run out for the command, and run it on a GPU node")
    if is_converted(Path(conversion.target)):
        raise Refused("a converted checkpoint is there already", where=conversion.target, hint="move it away first")
    argv = [program, *conversion.argv[1:]]
    # Its stdout is no answer of ours.
    status = subprocess.run(argv, env={**os.environ, **conversion.env}, stdout=2, check=False).returncode
    if status or not is_converted(Path(conversion.target)):
        raise Refused(f"slime's tool ended with status {status} and left no whole checkpoint", where=conversion.target)


def is_converted(directory: Path) -> bool:
    """Whether the tool has finished there: it writes the tracker's word last."""
    try:
        return (directory / TRACKER).read_text(encoding="utf-8").strip() == _RELEASE and (directory / _RELEASE).is_dir()
    except OSError:
        return False
