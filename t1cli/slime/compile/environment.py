"""The job's environment: what slime's scripts set, what Megatron asserts, and what must not be inherited."""

from __future__ import annotations

from typing import Final

from t1cli.slime.arguments.read import Arguments
from t1cli.slime.arguments.silent import offloads_training
from t1cli.spec.experiment import ExperimentSpec

STOP_WAIT_SECONDS: Final = 60
_READ_LINES: Final = r"(step|rollout|perf|eval) \d+: \{|successfully saved checkpoint|T1-(TRIAL|EVALUATION)"
_NVLINK_SWITCHED: Final = ("H100", "H200", "H800", "H20", "B200", "B300", "GB200", "GB300")

OWNED: Final = frozenset(
    {
        "PYTHONPATH",
        "PYTHONUNBUFFERED",
        "CUDA_DEVICE_MAX_CONNECTIONS",
        "NCCL_NVLS_ENABLE",
        "PYTORCH_CUDA_ALLOC_CONF",
        "RAY_JOB_STOP_WAIT_TIME_S",
        "RAY_DEDUP_LOGS_ALLOW_REGEX",
    }
)
"""Variables that t1 sets and `engine.env` may not."""


def environment(spec: ExperimentSpec, arguments: Arguments) -> dict[str, str]:
    """Environment variables of the job, without secrets: those stay in the environment that Ray's nodes started in."""
    engine = spec.engine
    assert engine.kind == "slime"
    if engine.from_script:
        return dict(engine.env)
    paths = (engine.slime_dir, engine.megatron_dir, *((engine.t1_dir,) if engine.t1_dir else ()))
    # torch_memory_saver raises on the text "expandable_segments:True" (M9), so an inherited value is replaced.
    expandable = spec.trainer.expandable_segments and not offloads_training(arguments)
    switched = spec.hardware.gpus_per_node == 8 and any(name in spec.hardware.gpu for name in _NVLINK_SWITCHED)
    return {
        "PYTHONPATH": ":".join(paths),
        "PYTHONUNBUFFERED": "1",
        "CUDA_DEVICE_MAX_CONNECTIONS": "1",
        "NCCL_NVLS_ENABLE": "1" if switched else "0",
        "PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True" if expandable else "",
        "RAY_JOB_STOP_WAIT_TIME_S": str(STOP_WAIT_SECONDS),
        # Ray prints one of several equal-looking lines; metrics, saves and trials must all come through.
        "RAY_DEDUP_LOGS_ALLOW_REGEX": _READ_LINES,
        **engine.env,
    }
