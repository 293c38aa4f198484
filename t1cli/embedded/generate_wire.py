"""The JSON of SGLang's /generate, server side: bodies to requests, results to answers. No transport, no engine."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from t1cli.embedded.inference import GenerateRequest, GenerateResult
from t1cli.embedded.sampling import SamplingParams
from t1cli.embedded.tokenizer import tokenizer
from t1cli.terminal.trajectory.routing import encode_routing

DEFAULT_NEW_TOKENS = 128
LEAST_TEMPERATURE = 1e-18
"""Logits over anything smaller are infinite in fp32, and the log-probs no numbers."""
_NEUTRAL: dict[str, tuple[object, ...]] = {
    "top_k": (None, -1, 0),
    "min_p": (None, 0, 0.0),
    "frequency_penalty": (None, 0, 0.0),
    "presence_penalty": (None, 0, 0.0),
    "repetition_penalty": (None, 1, 1.0),
    "min_new_tokens": (None, 0),
    "n": (None, 1),
    "stop": (None, [], ""),
    "ignore_eos": (None, False),
    "no_stop_trim": (None, True, False),
    "skip_special_tokens": (None, True, False),
    "spaces_between_special_tokens": (None, True, False),
}
"""Sampling parameters that this engine accepts only at values that change no token."""


class BadRequest(Exception):
    """A body that cannot be understood or done."""


@dataclass(frozen=True)
class GenerateBody:
    """A parsed /generate body."""

    requests: tuple[GenerateRequest, ...]
    batched: bool
    """Whether the answer is a list."""
    return_logprob: bool


def parse_generate(body: Any) -> GenerateBody:
    """Raises BadRequest with what was found and what is expected."""
    if not isinstance(body, dict):
        raise BadRequest(f"expected one JSON object, found {type(body).__name__}")
    if body.get("stream"):
        raise BadRequest("this engine does not stream; leave `stream` false")
    prompts = body.get("input_ids")
    if not isinstance(prompts, list) or not prompts:
        raise BadRequest("`input_ids` must be a list of token ids, or a list of such lists")
    batched = isinstance(prompts[0], list)
    rows = prompts if batched else [prompts]
    rids = _per_row(body.get("rid"), len(rows), batched=batched, name="rid")
    params = _per_row(body.get("sampling_params"), len(rows), batched=batched, name="sampling_params")
    starts = _per_row(body.get("logprob_start_len"), len(rows), batched=batched, name="logprob_start_len")
    routed, return_logprob = _flag(body, "return_routed_experts"), _flag(body, "return_logprob")
    requests = tuple(
        GenerateRequest(
            _rid(rid),
            ids := _ids(row, "input_ids"),
            parse_sampling(param or {}),
            routed,
            _score_from(start, len(ids)) if return_logprob else None,
        )
        for row, rid, param, start in zip(rows, rids, params, starts, strict=True)
    )
    return GenerateBody(requests, batched, return_logprob)


def parse_sampling(params: Any) -> SamplingParams:
    """SGLang's sampling parameters; BadRequest for those that this engine would silently ignore."""
    if not isinstance(params, dict):
        raise BadRequest(f"`sampling_params` must be an object, found {type(params).__name__}")
    known = {"temperature", "top_p", "max_new_tokens", "stop_token_ids", "sampling_seed"}
    for name, value in params.items():
        if name not in known and (name not in _NEUTRAL or value not in _NEUTRAL[name]):
            raise BadRequest(f"`sampling_params.{name}` = {value!r} is not supported by this engine")
    seed = params.get("sampling_seed")
    if seed is not None:
        seed = int(_number(params, "sampling_seed", default=0, low=0, high=2**63 - 1, whole=True))
    temperature = _number(params, "temperature", default=1.0, low=0.0, high=100.0)
    if 0 < temperature < LEAST_TEMPERATURE:
        raise BadRequest(f"`sampling_params.temperature` must be 0 or at least {LEAST_TEMPERATURE:g}")
    stop = params.get("stop_token_ids")
    return SamplingParams(
        max_new_tokens=int(
            _number(params, "max_new_tokens", default=DEFAULT_NEW_TOKENS, low=0, high=2**31, whole=True)
        ),
        temperature=temperature,
        top_p=_number(params, "top_p", default=1.0, low=1e-6, high=1.0),
        stop_token_ids=() if stop is None else _ids(stop, "stop_token_ids"),
        seed=seed,
    )


def answer(request: GenerateRequest, result: GenerateResult, *, return_logprob: bool) -> dict[str, Any]:
    """One reply as SGLang gives it."""
    meta: dict[str, Any] = {
        "id": request.rid,
        "finish_reason": _finish_reason(result),
        "prompt_tokens": len(request.input_ids),
        "completion_tokens": len(result.output_ids),
        "cached_tokens": result.cached_tokens,
        "weight_version": result.weight_version,
    }
    if return_logprob:
        pairs = zip(result.log_probs, result.output_ids, strict=True)
        meta["output_token_logprobs"] = [[log_prob, token, None] for log_prob, token in pairs]
        meta["input_token_logprobs"] = _prompt_entries(request, result)
    if request.return_routed_experts:
        routed = result.routed_experts
        meta["routed_experts"] = None if routed is None else encode_routing(routed)
    return {"text": tokenizer().decode(result.output_ids), "output_ids": list(result.output_ids), "meta_info": meta}


def _prompt_entries(request: GenerateRequest, result: GenerateResult) -> list[list[Any]]:
    """As SGLang writes them: the first token asked about has no log-prob, whatever comes before it.

    Not asked, it is the prompt's last one, and none at all where nothing is sampled either.
    """
    if request.score_from is None and request.params.max_new_tokens == 0:
        return []
    start = len(request.input_ids) - 1 if request.score_from is None else request.score_from
    values = (None, *result.prompt_log_probs)
    return [[value, token, None] for value, token in zip(values, request.input_ids[start:], strict=False)]


def _finish_reason(result: GenerateResult) -> dict[str, Any]:
    if result.finish == "stop":
        return {"type": "stop", "matched": result.output_ids[-1]}
    if result.finish == "length":
        return {"type": "length", "length": len(result.output_ids)}
    return {"type": "abort", "message": "aborted by request"}


def _per_row(value: Any, count: int, *, batched: bool, name: str) -> Sequence[Any]:
    if batched and isinstance(value, list):
        if len(value) != count:
            raise BadRequest(f"`{name}` has {len(value)} entries for {count} prompts")
        return value
    if batched and name == "rid" and value is not None:
        return [f"{value}_{index}" for index in range(count)]
    return [value] * count


def _score_from(value: Any, prompt_tokens: int) -> int | None:
    """SGLang's `logprob_start_len`: -1 asks for no prompt log-probs."""
    if value is None or value == -1:
        return None
    if type(value) is not int or not 0 <= value < prompt_tokens:
        raise BadRequest(
            f"`logprob_start_len` must be -1 or from 0 to {prompt_tokens - 1}, the prompt's last token, found {value!r}"
        )
    return value


def _rid(value: Any) -> str:
    if value is None:
        return uuid.uuid4().hex
    if not isinstance(value, str) or not value:
        raise BadRequest(f"`rid` must be a non-empty string, found {value!r}")
    return value


def _ids(value: Any, name: str) -> tuple[int, ...]:
    if not isinstance(value, list) or not all(type(token) is int for token in value):
        raise BadRequest(f"`{name}` must be a list of integers")
    return tuple(value)


def _flag(body: Mapping[str, Any], name: str) -> bool:
    value = body.get(name) or False
    if not isinstance(value, bool):
        raise BadRequest(f"`{name}` must be true or false, found {value!r}")
    return value


def _number(
    params: Mapping[str, Any], name: str, *, default: float, low: float, high: float, whole: bool = False
) -> float:
    value = params.get(name)
    if value is None:
        return default
    wanted = int if whole else (int, float)
    if isinstance(value, bool) or not isinstance(value, wanted) or not low <= value <= high:
        kind = "an integer" if whole else "a number"
        raise BadRequest(f"`sampling_params.{name}` must be {kind} from {low:g} to {high:g}, found {value!r}")
    return value
