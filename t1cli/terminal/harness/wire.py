"""The JSON of SGLang's native /generate, both directions, without any transport."""

from __future__ import annotations

from typing import Any

from t1cli.terminal.harness.engine import EngineError, Generation, Sampling
from t1cli.terminal.trajectory.routing import RoutingCapture, RoutingShape


def request_body(prompt_ids: tuple[int, ...], *, rid: str, sampling: Sampling, routing: bool) -> dict[str, Any]:
    """The request: prompt ids, sampling parameters, log-probs always, routed experts when asked."""
    parameters: dict[str, Any] = {
        "max_new_tokens": sampling.max_new_tokens,
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "stop_token_ids": list(sampling.stop_ids),
        # The stop token is part of what was sampled and therefore of what is trained.
        "no_stop_trim": True,
        "skip_special_tokens": False,
        "spaces_between_special_tokens": False,
    }
    if sampling.seed is not None:
        parameters["sampling_seed"] = sampling.seed
    body: dict[str, Any] = {
        "rid": rid,
        "input_ids": list(prompt_ids),
        "sampling_params": parameters,
        "return_logprob": True,
    }
    if routing:
        body["return_routed_experts"] = True
    return body


def sampled_tokens(content: dict[str, Any]) -> int:
    """Tokens that a reply says it sampled; 0 when it says nothing readable."""
    output_ids = content.get("output_ids")
    return len(output_ids) if isinstance(output_ids, list) else 0


def generation_of(
    content: dict[str, Any], *, prompt_ids: tuple[int, ...], routing: RoutingShape | None, seconds: float
) -> Generation:
    """A reply as a Generation, its routing still encoded.

    Raises EngineError when ids and log-probs disagree, WrongRouting for too many or too few routing rows.
    """
    try:
        meta = content["meta_info"]
        sampled = tuple(int(token) for token in content["output_ids"])
        scored = [(float(entry[0]), int(entry[1])) for entry in meta.get("output_token_logprobs") or ()]
        finish_reason = str((meta.get("finish_reason") or {}).get("type", "abort"))
    except (KeyError, TypeError, ValueError, OverflowError, IndexError, AttributeError) as error:
        raise EngineError("engine_bad_reply", f"{type(error).__name__}: {error}") from error
    if tuple(token for _, token in scored) != sampled:
        raise EngineError("engine_bad_reply", f"{len(sampled)} output ids do not match their {len(scored)} log-probs")
    payload = meta.get("routed_experts")
    return Generation(
        sampled_ids=sampled,
        log_probs=tuple(log_prob for log_prob, _ in scored),
        routed_experts=None
        if payload is None or routing is None
        else RoutingCapture(str(payload), rows=len(prompt_ids) + len(sampled) - 1, shape=routing),
        finish_reason=finish_reason,
        weight_version=_version(meta.get("weight_version")),
        seconds=seconds,
    )


def _version(value: Any) -> int:
    # SGLang says "default" before the first weight update.
    text = str(value)
    return int(text) if text.isdecimal() else -1
