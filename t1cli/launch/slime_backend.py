"""slime on Ray: what a launch would run, as far as it is known here; starting it is refused."""

from __future__ import annotations

from typing import Any

from t1cli.errors import Refused
from t1cli.launch.backend import Invocation, Job, Started
from t1cli.launch.gates import Refusal
from t1cli.launch.redaction import Redactor
from t1cli.launch.run_directory import RunDirectory
from t1cli.launch.save_directories import save_directories
from t1cli.spec.algorithm import PPO
from t1cli.spec.engine import SlimeEngine
from t1cli.spec.experiment import ExperimentSpec
from t1cli.spec.load import LoadedSpec

_REASON = "this version of t1 plans campaigns on the slime engine but cannot launch them yet"
_FIX = "rehearse the data path on one machine with `--set engine.kind=embedded`, or start slime by hand"


class SlimeBackend:
    """Shows the job's command, environment and role file; starts nothing."""

    engine = "slime"

    def refusals(self, loaded: LoadedSpec) -> tuple[Refusal, ...]:
        """Always: the slime engine cannot be launched."""
        return (Refusal("engine", _REASON, loaded.where("engine.kind"), _FIX, acceptable=False),)

    def invocation(self, loaded: LoadedSpec, run: RunDirectory) -> Invocation:
        """The arguments that follow from the spec alone. The model's and the parallel layout's are not among them."""
        engine = loaded.spec.engine
        assert isinstance(engine, SlimeEngine)
        redactor = Redactor.of_environment(None, dict(engine.env))
        env = {"PYTHONPATH": engine.megatron_dir, "CUDA_DEVICE_MAX_CONNECTIONS": "1", **redactor.json(dict(engine.env))}
        argv = _submission(engine) + _arguments(loaded.spec, run)
        return Invocation(redactor.argv(argv), env, role_file(loaded.spec, run))

    def start(self, job: Job) -> Started:
        """Raises Refused."""
        raise Refused(_REASON, hint=_FIX)


def role_file(spec: ExperimentSpec, run: RunDirectory) -> dict[str, Any] | None:
    """slime's `--megatron-config-path` content: the critic's learning rate and a save directory of its own (C2)."""
    if not isinstance(spec.algorithm, PPO):
        return None
    directories = save_directories(spec, run)
    actor = {"save": str(directories.actor), "lr": spec.algorithm.actor_learning_rate}
    critic: dict[str, Any] = {"save": str(directories.critic), "lr": spec.algorithm.critic.learning_rate}
    return {
        "megatron": [
            {"name": "actor", "role": "actor", "overrides": actor},
            {"name": "critic", "role": "critic", "overrides": critic},
        ]
    }


def _submission(engine: SlimeEngine) -> tuple[str, ...]:
    address = (f"--address={engine.ray_address}",) if engine.ray_address else ()
    return ("ray", "job", "submit", *address, "--", "python3", f"{engine.slime_dir}/train.py")


def _arguments(spec: ExperimentSpec, run: RunDirectory) -> tuple[str, ...]:
    rollout, directories = spec.rollout, save_directories(spec, run)
    options: dict[str, object] = {
        "--advantage-estimator": spec.algorithm.kind,
        "--num-rollout": rollout.num_rollouts,
        "--rollout-batch-size": rollout.batch_size,
        "--n-samples-per-prompt": rollout.samples_per_prompt,
        "--rollout-max-context-len": rollout.context_tokens,
        "--rollout-temperature": rollout.temperature,
        "--max-tokens-per-gpu": spec.trainer.max_tokens_per_gpu,
        "--lr": spec.algorithm.actor_learning_rate,
        "--save": directories.actor,
        "--save-interval": spec.checkpoint.every_rollouts,
        "--seed": spec.seed,
    }
    if isinstance(spec.algorithm, PPO):
        options |= {
            "--num-critic-only-steps": spec.algorithm.critic.critic_only_steps,
            "--megatron-config-path": run.path / "roles.yaml",
        }
    return tuple(word for name, value in options.items() for word in (name, str(value)))
