"""The provider that a spec's `sandbox` block names."""

from __future__ import annotations

from pathlib import Path

from t1cli.spec.sandbox import HarborSandbox, LocalSandbox, PoolSandbox
from t1cli.spec.sandbox import Sandbox as SandboxSpec
from t1cli.terminal.sandbox.harbor.provider import HarborProvider
from t1cli.terminal.sandbox.local import LocalProvider
from t1cli.terminal.sandbox.pool.client import PoolProvider
from t1cli.terminal.sandbox.sandbox import SandboxProvider


def sandbox_provider(spec: SandboxSpec, directory: Path) -> SandboxProvider:
    """The provider of a run, with its records in `directory`. Raises CouldNotAsk."""
    match spec:
        case LocalSandbox():
            return LocalProvider(spec, directory)
        case PoolSandbox():
            return PoolProvider(spec, directory)
        case HarborSandbox():
            return HarborProvider(spec, directory)
