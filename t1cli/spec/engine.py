"""`engine`: what runs the campaign."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, NonNegativeInt, PositiveFloat, PositiveInt

from t1cli.spec.block import Block
from t1cli.spec.inference import SGLangSpec
from t1cli.spec.prompts import PromptData


class SlimeEngine(Block):
    """slime on a Ray cluster."""

    kind: Literal["slime"] = "slime"
    """Ray, Megatron and SGLang."""
    version: str = "0.3.0"
    """slime version whose argument table is used."""
    slime_dir: str = "/root/slime"
    """slime checkout on the nodes; the job runs there."""
    megatron_dir: str = "/root/Megatron-LM"
    """Megatron-LM checkout on the nodes."""
    ray_address: str | None = None
    """Ray dashboard or client address; null takes RAY_ADDRESS."""
    rollout_loop: Literal["t1", "slime"] = "t1"
    """Who plays a batch. `t1`: its own loop. `slime`: slime's stock rollout, which calls one trial at a time and does
    over-sampling, filtering and abort; rows, ledger and metrics are as under `t1`. `pipeline: fully_async` runs on
    slime's asynchronous worker in either case."""
    mem_fraction_static: float = Field(default=0.7, gt=0.0, lt=1.0)
    """SGLang's share of GPU memory for weights and KV cache."""
    sglang: SGLangSpec = SGLangSpec()
    """How the inference engines serve."""
    health_check_first_wait_seconds: PositiveFloat = 300.0
    """First wait of the engine health check; must survive cold kernel compiles."""
    env: dict[str, str] = Field(default_factory=dict)
    """Extra environment of the job; what t1 sets itself is refused here."""
    t1_dir: str | None = None
    """t1 checkout on the nodes; null means that it is installed in their image."""
    from_script: bool = False
    """Read from a slime script: slime's own rollout runs, and only keys that are written somewhere become arguments."""
    leave_out: tuple[str, ...] = ()
    """Arguments that are not passed although a key holds them, so that slime's own default applies."""
    prompts: PromptData | None = None
    """Prompts and functions of slime's own rollout; null for terminal campaigns."""


class EmbeddedEngine(Block):
    """The CPU engine on this machine."""

    kind: Literal["embedded"] = "embedded"
    """One machine, no GPU."""
    warm_start: str = "shipped"
    """First actor weights: `shipped`, `random`, or a safetensors path."""
    router_noise: float = Field(default=0.0, ge=0.0)
    """Standard deviation added to the scores by which the sampler selects experts, to study replay."""
    router_dtype: Literal["bf16", "fp32"] = "bf16"
    """Number format the sampler runs in; the trainer runs fp32."""
    server_threads: PositiveInt = 1
    """Torch threads of the inference server."""
    max_batch: PositiveInt = 32
    """Requests decoded together."""
    seed_offset: NonNegativeInt = 0
    """Added to the campaign's seed for sampling only."""


Engine = Annotated[SlimeEngine | EmbeddedEngine, Field(discriminator="kind")]
