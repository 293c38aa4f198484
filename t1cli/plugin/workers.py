"""Where trials are played: in this process on one rollout node, on the nodes themselves when there are several."""

from __future__ import annotations

import logging
from functools import lru_cache, partial
from typing import Any

from t1cli.cluster.node_actors import NodeActors
from t1cli.errors import CouldNotAsk
from t1cli.plugin.campaign import Campaign
from t1cli.plugin.settings import settings_text
from t1cli.plugin.trial_worker import TARGET, RemoteTrial, rollout_addresses
from t1cli.terminal.rollout.batch import TrialMaker
from t1cli.terminal.rollout.from_spec import sandbox_capacity
from t1cli.terminal.rollout.trial import Trial

_ROUTER_SECONDS = 10.0
logger = logging.getLogger(__name__)


def trial_maker(args: Any, campaign: Campaign, *, evaluates: bool = False) -> TrialMaker:
    """How a rollout, or an evaluation, makes its trials."""
    url = f"http://{args.sglang_router_ip}:{args.sglang_router_port}"
    addresses = _engine_hosts(url)
    if len(addresses) < 2:
        return Trial
    wanted = (settings_text(args), url, addresses, _share(campaign, addresses))
    workers = _workers(*wanted)
    if workers is not None and workers.lost:
        logger.warning("S10: trial workers on %s have died: all are started anew", ", ".join(sorted(workers.lost)))
        workers.close()
        _workers.cache_clear()
        workers = _workers(*wanted)
    return Trial if workers is None else partial(RemoteTrial, workers, evaluates=evaluates)


def _share(campaign: Campaign, addresses: tuple[str, ...]) -> int:
    return max(1, sandbox_capacity(campaign.spec.sandbox) // len(addresses))


@lru_cache(maxsize=2)
def _workers(settings: str, url: str, addresses: tuple[str, ...], places: int) -> NodeActors | None:
    try:
        # Every place holds one call, and a cancellation must get through beside them.
        return NodeActors.spawn(TARGET, addresses, settings, url, places, concurrency=4 * places + 8)
    except CouldNotAsk as problem:
        logger.warning("S10: trials stay on the coordinator's node: %s", problem.message)
        return None


def _engine_hosts(url: str) -> tuple[str, ...]:
    """The router's engines; none when it does not list them, and then trials stay here."""
    import httpx

    try:
        answer = httpx.get(f"{url}/workers", timeout=_ROUTER_SECONDS, trust_env=False)
        listed = answer.json().get("workers", []) if answer.status_code == 200 else []
    except (httpx.HTTPError, ValueError, AttributeError):
        return ()
    return rollout_addresses([worker.get("url", "") for worker in listed if isinstance(worker, dict)])
