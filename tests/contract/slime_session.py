"""What a session of slime's holds for our hooks, and the embedded engine behind it, with weights of no training."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from t1cli.spec.experiment import ExperimentSpec
from t1cli.spec.load import load_experiment

ROOT = Path(__file__).parents[2]
SMALL = ("rollout.batch_size=2", "rollout.max_turns=2", "rollout.context_tokens=256", "sandbox.capacity=4")


def small_spec() -> ExperimentSpec:
    """The quickstart on slime with two short trials a rollout."""
    pool = f"tasks.path={ROOT / 'experiments/quickstart/tasks'}"
    return load_experiment(Path("quickstart"), [*SMALL, pool, "engine.kind=slime"]).spec


def session_settings(spec: ExperimentSpec, run: Path) -> dict[str, Any]:
    """The settings that a launch puts into slime's namespace as `t1`."""
    return {
        "spec": spec.model_dump(mode="json"),
        "run_dir": str(run),
        "family": "f" * 12,
        "session": 1,
        "actor_dir": str(run / "checkpoints/actor"),
        "critic_dir": str(run / "checkpoints/critic"),
    }


@contextmanager
def engine_of(spec: ExperimentSpec, directory: Path) -> Iterator[dict[str, Any]]:
    """An inference server with fresh weights below `directory`; yields slime's arguments that lead to it."""
    import torch

    from t1cli.embedded.model import TinyMoE, TinyMoEConfig
    from t1cli.embedded.server_process import inference_server
    from t1cli.embedded.weights import save_weights

    torch.manual_seed(0)
    config = TinyMoEConfig.from_architecture(spec.model.architecture)
    save_weights(directory / "model.safetensors", TinyMoE(config).state_dict(), config)
    with inference_server(directory / "model.safetensors", "--max-batch", "4") as server:
        host, _, port = server.url.removeprefix("http://").partition(":")
        yield {"sglang_router_ip": host, "sglang_router_port": int(port)}
