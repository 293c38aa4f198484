"""`sandbox`: where a trial's commands run."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, NonNegativeFloat, PositiveFloat, PositiveInt

from t1cli.spec.block import Block


class SandboxLimits(Block):
    """What one sandbox may use."""

    memory_mib: PositiveInt = 1024
    """Memory of one sandbox."""
    disk_mib: PositiveInt = 256
    """Writable space of one sandbox."""
    max_processes: PositiveInt = 128
    """Processes in one sandbox."""
    network: bool = False
    """Whether commands reach the network."""


class LocalSandbox(Block):
    """Sandboxes on this machine: bubblewrap, or plain processes with a warning."""

    kind: Literal["local"] = "local"
    """This machine."""
    backend: Literal["auto", "bubblewrap", "process"] = "auto"
    """`auto` takes bubblewrap where it works. `process` isolates nothing and needs trusted tasks."""
    capacity: PositiveInt = 32
    """Sandboxes at once."""
    creation_per_second: PositiveFloat | None = None
    """Pace of creation; null means unpaced."""
    max_verifiers: PositiveInt | None = None
    """Verifiers at once; null means the core count."""
    limits: SandboxLimits = SandboxLimits()
    """What one sandbox may use."""


class PoolSandbox(Block):
    """Leases of one or more pool servers."""

    kind: Literal["pool"] = "pool"
    """A sandbox pool over HTTP."""
    urls: tuple[str, ...] = Field(min_length=1)
    """Pool servers (or one router)."""
    max_tasks: PositiveInt
    """Different tasks that one server holds at once."""
    max_runs_per_task: PositiveInt
    """Leases of one task that one server holds at once."""
    queueing: bool = False
    """Whether a full pool queues a request or answers 429."""
    routing: Literal["hash", "free_slots"] = "hash"
    """How requests are spread over several servers."""
    creation_per_second: PositiveFloat | None = None
    """Pace of creation that the provider allows; null means unpaced."""
    memory_per_sandbox_gib: PositiveFloat = 0.25
    """Host memory of one sandbox on a pool host."""
    disk_per_sandbox_gib: PositiveFloat = 1.6
    """Temporary disk of one sandbox on a pool host."""
    on_training_host: bool = False
    """Whether a pool server runs on a training node, sharing its memory, disk and container daemon."""
    lease_seconds: PositiveFloat = 3600.0
    """Lifetime of a lease."""
    wait_seconds: PositiveFloat = 3600.0
    """A trial that waited this long for a lease counts as lost to the provider, and is run again."""


class HarborSandbox(Block):
    """Any Harbor environment: cloud sandboxes of many providers."""

    kind: Literal["harbor"] = "harbor"
    """A Harbor environment."""
    environment: str
    """Harbor's name of the environment, or `package.module:Class`."""
    options: dict[str, Any] = Field(default_factory=dict)
    """Options of the environment (Harbor's `--ek`); keys of accounts belong into its environment variables."""
    python: str | None = None
    """Interpreter that has Harbor, 3.12 or newer; null means the one that t1 runs in."""
    image: str = "python:3.11-slim"
    """Image for a task with neither Dockerfile nor `docker_image`, and for preflight's probe."""
    create_seconds: PositiveFloat = 600.0
    """Longest that one sandbox may take to start, an image that has to be built included."""
    capacity: PositiveInt
    """Sandboxes at once that the account allows."""
    creation_per_second: PositiveFloat = 6.0
    """Creations per second that the account allows."""
    lifetime_seconds: PositiveFloat = 7200.0
    """Provider's lifetime of one sandbox, handed to environments that have an option for it."""
    memory_per_sandbox_gib: NonNegativeFloat = 0.0
    """Memory of one sandbox on our own hosts; 0 when it runs at the provider's."""


Sandbox = Annotated[LocalSandbox | PoolSandbox | HarborSandbox, Field(discriminator="kind")]
