"""tracking: metric stores can be written to, and keys are present but never shown."""

from __future__ import annotations

import contextlib
import netrc
import socket
from pathlib import Path
from urllib.parse import urlsplit

from t1cli.preflight.check import Check, Context, Saw, failed, passed, skipped, warned

REACH_SECONDS = 5.0
WANDB_HOST = "https://api.wandb.ai"


def wandb(context: Context) -> Saw:
    """W&B online needs a key in the environment or in the netrc file; offline needs none."""
    settings = context.spec.tracking.wandb
    if settings is None:
        return skipped("tracking.wandb is off")
    if _offline(context):
        return passed("offline files", "a key or offline mode")
    if context.environment.get("WANDB_API_KEY"):
        return passed("WANDB_API_KEY is set", "a key or offline mode")
    if _in_netrc(_host(context)):
        return passed("a netrc file has an entry for it", "a key or offline mode")
    if not context.runs_here:
        return skipped("no WANDB_API_KEY here; the launching machine needs it, or --set tracking.wandb.mode=offline")
    return failed(
        "no WANDB_API_KEY and no netrc entry",
        "a key or offline mode",
        "export WANDB_API_KEY, or --set tracking.wandb.mode=offline",
    )


def wandb_reachable(context: Context) -> Saw:
    """W&B online can be connected to; a machine without a way out decides for offline now, not in a hanging init."""
    if context.spec.tracking.wandb is None:
        return skipped("tracking.wandb is off")
    if _offline(context):
        return skipped("offline was decided")
    parts = urlsplit(_base(context))
    host, port = parts.hostname or "", parts.port or (80 if parts.scheme == "http" else 443)
    wanted = f"a connection to {host}:{port}, or tracking.wandb.mode=offline"
    try:
        socket.create_connection((host, port), timeout=REACH_SECONDS).close()
    except (OSError, UnicodeError) as error:
        fix = "--set tracking.wandb.mode=offline and `wandb sync` later, or set WANDB_BASE_URL or a proxy"
        judge = failed if context.runs_here else warned
        return judge(f"{host}:{port}: {getattr(error, 'strerror', None) or error}", wanted, fix)
    return passed(f"{host}:{port} answers", wanted)


def tensorboard(context: Context) -> Saw:
    """TensorBoard's event files need its package where the campaign writes them."""
    if context.spec.tracking.tensorboard is None:
        return skipped("tracking.tensorboard is off")
    if not context.runs_here:
        return skipped("written by slime's own processes, with the image's package")
    import importlib.util

    if importlib.util.find_spec("tensorboard") is not None:
        return passed("tensorboard installed", "tensorboard installed")
    return failed("tensorboard is not installed", "tensorboard installed", 'pip install "t1cli[tracking]"')


def _offline(context: Context) -> bool:
    settings = context.spec.tracking.wandb
    return (settings is not None and settings.mode == "offline") or context.environment.get("WANDB_MODE") == "offline"


def _base(context: Context) -> str:
    return context.environment.get("WANDB_BASE_URL") or WANDB_HOST


def _host(context: Context) -> str:
    return urlsplit(_base(context)).hostname or ""


def _in_netrc(host: str) -> bool:
    """Whether the netrc file has an entry for a host; the entry itself is neither kept nor shown."""
    with contextlib.suppress(OSError, netrc.NetrcParseError, UnicodeDecodeError):
        return netrc.netrc(str(Path.home() / ".netrc")).authenticators(host) is not None
    return False


CHECKS = (
    Check("tracking.wandb", (), wandb),
    Check("tracking.wandb_reachable", (), wandb_reachable),
    Check("tracking.tensorboard", (), tensorboard),
)
