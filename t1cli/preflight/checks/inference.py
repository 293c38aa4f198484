"""inference: one request to an engine that already runs, and what a trainer needs of its answer."""

from __future__ import annotations

import asyncio
from typing import Any

from t1cli.preflight.check import Check, Context, Saw, failed, passed, skipped

PROMPT = (1, 2, 3, 4, 5, 6, 7, 8)
TOKENS = 4
SECONDS = 30.0
URL_VARIABLE = "T1_ENGINE_URL"


def generate(context: Context) -> Saw:
    """One reply carries sampled ids, their log-probs and routing rows of the right number, and the weights' version."""
    url = _url(context)
    if not url:
        return skipped(f"no engine runs yet: it starts with the campaign; {URL_VARIABLE} names one that does")
    from t1cli.terminal.harness.engine import EngineError
    from t1cli.terminal.trajectory.routing import WrongRouting

    wanted = f"{TOKENS} sampled ids with log-probs{_wanted_routing(context)} and a weight version"
    fix = "compare the engine with slime's tested SGLang and its patch; software.sglang looks at the installed one"
    try:
        generation = asyncio.run(_ask(context, url))
    except (EngineError, WrongRouting) as problem:
        return failed(f"{url}: {problem}", wanted, fix)
    sampled, scored, routed = len(generation.sampled_ids), len(generation.log_probs), generation.routed_experts
    shape = None if routed is None else tuple(routed.shape)
    routing = "none" if shape is None else str(shape)
    found = f"{sampled} ids, {scored} log-probs, routing {routing}, version {generation.weight_version}"
    if not sampled or sampled != scored:
        return failed(f"{url}: {found}", wanted, fix)
    if _routing(context) is not None and routed is None:
        return failed(f"{url}: {found}", wanted, "start the engine with --enable-return-routed-experts")
    return passed(f"{url}: {found}", wanted)


async def _ask(context: Context, url: str) -> Any:
    from t1cli.terminal.harness.engine import Sampling
    from t1cli.terminal.harness.engine_client import ClientTimes, EngineClient

    times = ClientTimes(generate_seconds=SECONDS, control_seconds=5.0, max_retries=1)
    async with EngineClient(url, routing=_routing(context), times=times) as engine:
        return await engine.generate(
            PROMPT, rid="t1-preflight", sampling=Sampling(max_new_tokens=TOKENS, temperature=1.0)
        )


def _routing(context: Context) -> Any:
    from t1cli.terminal.rollout.from_spec import routing_shape

    return routing_shape(context.spec)


def _wanted_routing(context: Context) -> str:
    shape = _routing(context)
    return "" if shape is None else f", routing of prompt + sampled - 1 rows x {shape.layers} layers x {shape.top_k}"


def _url(context: Context) -> str:
    """An engine of the environment, or the router that the spec fixes by slime_args."""
    named = context.environment.get(URL_VARIABLE, "")
    arguments = {name.replace("-", "_").lstrip("_"): value for name, value in context.spec.slime_args.items()}
    host, port = arguments.get("sglang_router_ip"), arguments.get("sglang_router_port")
    return named or (f"http://{host}:{port}" if host and port else "")


CHECKS = (Check("inference.generate", ("F1", "F3", "F4"), generate, limit_seconds=60.0),)
