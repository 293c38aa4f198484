"""tracking: metric stores can be written to, and keys are present but never shown."""

from __future__ import annotations

import os
from pathlib import Path

from t1cli.preflight.check import Check, Context, Saw, failed, passed, skipped


def wandb(context: Context) -> Saw:
    """W&B online needs a key in the environment or in the netrc file; offline needs none."""
    settings = context.spec.tracking.wandb
    if settings is None:
        return skipped("tracking.wandb is off")
    if settings.mode == "offline" or os.environ.get("WANDB_MODE") == "offline":
        return passed("offline files", "a key or offline mode")
    if os.environ.get("WANDB_API_KEY"):
        return passed("WANDB_API_KEY is set", "a key or offline mode")
    if (Path.home() / ".netrc").exists():
        return passed("a netrc file is present", "a key or offline mode")
    if not context.runs_here:
        return skipped("no WANDB_API_KEY here; the launching machine needs it, or --set tracking.wandb.mode=offline")
    return failed(
        "no WANDB_API_KEY and no netrc file",
        "a key or offline mode",
        "export WANDB_API_KEY, or --set tracking.wandb.mode=offline",
    )


CHECKS = (Check("tracking.wandb", (), wandb),)
