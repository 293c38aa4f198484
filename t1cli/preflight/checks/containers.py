"""sandboxes: the container daemon of this machine, where sandboxes of the campaign are its containers."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

from t1cli.errors import BadInput
from t1cli.preflight.check import Check, Context, Saw, failed, passed, skipped, warned
from t1cli.preflight.every_node import EveryNode
from t1cli.preflight.fleet import Probe
from t1cli.preflight.task_pool import tasks_of

TIRED_SECONDS = 18 * 3600
MOST_TASKS, MOST_IMAGES = 500, 50
_IMAGE = re.compile(r"[a-z0-9][\w./:@-]{0,254}")


def networks(context: Context, found: Any) -> Saw:
    """Address pools of the container daemon: each compose project takes a network, and there are few by default."""
    if found["problem"]:
        return skipped(found["problem"])
    needed = context.plan.pool.granted
    free = found["network_places"] - found["networks"]
    said, wanted = f"{free} networks free of {found['network_places']}", f"{needed}, one per sandbox at once"
    if free >= needed:
        return passed(said, wanted)
    fix = "`docker network prune`, and `default-address-pools` with a small `size` in daemon.json"
    return failed(said, wanted, fix)


def age(context: Context, found: Any) -> Saw:
    """Age of the container daemon: one in the postmortem lost two thirds of its speed after 22 hours of compose."""
    if found["problem"]:
        return skipped(found["problem"])
    if found["age_seconds"] is None:
        return skipped("the daemon does not say when it was started")
    said = f"up {found['age_seconds'] / 3600:.1f} h, {found['containers']} containers"
    if found["age_seconds"] < TIRED_SECONDS:
        return passed(said, "below 18 h")
    return warned(said, "below 18 h", "restart it before a long run, and prune: `systemctl restart docker`")


def images(context: Context, found: Any) -> Saw:
    """Images that tasks name are there: a pull inside a trial takes the trial's time, and 8 runs pull 8 times."""
    if found["problem"]:
        return skipped(found["problem"])
    missing, wanted = found["missing_images"], "the images of the sampled tasks"
    if not missing:
        return passed("all there", wanted)
    return warned(
        f"{len(missing)} missing, first {missing[0]}",
        wanted,
        f"docker pull {missing[0]} (and the others) before the run",
    )


def _containers(context: Context) -> Probe | Saw:
    return _daemon(context, [])


def _images(context: Context) -> Probe | Saw:
    reason = _no_containers(context)
    if reason:
        return skipped(reason)
    try:
        named = sorted({image for task in tasks_of(context)[:MOST_TASKS] if (image := _image_of(task.path))})
    except BadInput:
        return skipped("the task pool cannot be read from here")
    usable = [name for name in named if _IMAGE.fullmatch(name)]
    if not usable:
        return skipped("no task names an image")
    return _daemon(context, usable[:MOST_IMAGES])


def _image_of(task: Path) -> str:
    """What Harbor's `[environment] docker_image` names; the loader has read this file already."""
    try:
        environment = tomllib.loads((task / "task.toml").read_text(encoding="utf-8-sig")).get("environment")
    except (OSError, ValueError):
        return ""
    return str(environment.get("docker_image", "")) if isinstance(environment, dict) else ""


def _daemon(context: Context, wanted: list[str]) -> Probe | Saw:
    reason = _no_containers(context)
    if reason:
        return skipped(reason)
    return Probe("t1cli.preflight.probes.containers:containers", {"images": wanted})


def _no_containers(context: Context) -> str:
    """Why no container of this campaign runs on its nodes."""
    sandbox = context.spec.sandbox
    if sandbox.kind == "local":
        return "local sandboxes are no containers"
    if sandbox.kind == "pool":
        return "" if sandbox.on_training_host else "pool servers run on other hosts; sandboxes.daemon asks them"
    return "" if sandbox.environment in ("docker", "podman") else f"{sandbox.environment} runs them at the provider"


CHECKS = (
    Check("sandboxes.networks", ("S3",), EveryNode(_containers, networks), limit_seconds=60.0),
    Check("sandboxes.container_daemon", ("S4",), EveryNode(_containers, age), limit_seconds=60.0),
    Check("sandboxes.images", (), EveryNode(_images, images), limit_seconds=60.0),
)
