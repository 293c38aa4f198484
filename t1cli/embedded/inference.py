"""The inference engine: one thread that admits, prefills and decodes requests together, and swaps weights between them.

Weight updates wait behind a barrier: running requests finish under the old weights, waiting ones start under the new,
so that no request spans two versions.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from t1cli.embedded.decoder import Decoder, DecoderSettings, Slot
from t1cli.embedded.model import TinyMoEConfig
from t1cli.embedded.sampling import SamplingParams, sample
from t1cli.embedded.weights import check_shapes, read_config, read_weights

_T = TypeVar("_T")

PREFILL_TOKENS = 2048
"""Prompt tokens admitted per round; a longer prompt goes alone."""

SHARED_STEP_SECONDS = 0.008
"""Least time between steps where the engine shares its cores with sandboxes. A step costs nearly the same for one
request as for eight, so that stepping at once for every straggler takes the cores that would bring the next ones."""


@dataclass(frozen=True)
class GenerateRequest:
    """One prompt."""

    rid: str
    input_ids: tuple[int, ...]
    params: SamplingParams
    return_routed_experts: bool = False
    score_from: int | None = None
    """Index of a prompt token: the log-probs of those after it are asked for too. None asks for none."""

    @property
    def is_scored(self) -> bool:
        """Whether it is about the prompt itself, be it beside a reply."""
        return self.score_from is not None or self.params.max_new_tokens == 0


@dataclass(frozen=True)
class GenerateResult:
    """One reply. `output_ids` holds the stop id when one ended it."""

    output_ids: tuple[int, ...]
    log_probs: tuple[float, ...]
    finish: Literal["stop", "length", "abort"]
    weight_version: str
    cached_tokens: int = 0
    routed_experts: npt.NDArray[np.int32] | None = None
    """(prompt + output - 1, L, K); None when not asked for or nothing was computed."""
    prompt_log_probs: tuple[float, ...] = ()
    """Of the prompt's tokens after `score_from`, at temperature 1."""


class RequestRefused(Exception):
    """A request that this engine will not run, in the caller's words."""


class EngineBroken(Exception):
    """The decode loop has died; nothing will be answered any more."""


@dataclass
class _Running:
    request: GenerateRequest
    future: Future[GenerateResult]
    slot: Slot
    cached_tokens: int
    random: np.random.Generator
    output_ids: list[int] = field(default_factory=list)
    log_probs: list[float] = field(default_factory=list)
    prompt_log_probs: tuple[float, ...] = ()


@dataclass
class _Update:
    weights: Mapping[str, Tensor]
    version: str | None
    done: Future[str]


class InferenceEngine:
    """Thread-safe front of the decode loop. `close` it, or use it as a context manager."""

    def __init__(
        self,
        config: TinyMoEConfig,
        weights: Mapping[str, Tensor],
        settings: DecoderSettings | None = None,
        *,
        weight_version: str = "0",
        threads: int = 1,
        step_seconds: float = 0.0,
    ) -> None:
        """`step_seconds`: least time between two steps; see SHARED_STEP_SECONDS."""
        settings = settings or DecoderSettings()
        check_shapes(weights, config, where="initial weights")
        self.config, self.settings = config, settings
        self._decoder = Decoder(config, weights, settings)
        self._version = weight_version
        self._seeds = np.random.default_rng(settings.seed)
        self._condition = threading.Condition()
        self._waiting: deque[tuple[GenerateRequest, Future[GenerateResult]]] = deque()
        self._running: list[_Running] = []
        self._updates: deque[_Update] = deque()
        self._aborted: set[str] = set()
        self._pause: Literal["no", "admission", "all"] = "no"
        self._closed = False
        self._broken: BaseException | None = None
        self._threads, self._step_seconds = threads, step_seconds
        self._thread = threading.Thread(target=self._loop, name="decode", daemon=True)
        self._thread.start()

    @classmethod
    def from_file(
        cls, path: Path, settings: DecoderSettings | None = None, *, threads: int = 1, step_seconds: float = 0.0
    ) -> InferenceEngine:
        """An engine on weights written by `save_weights`."""
        config = read_config(path)
        return cls(config, read_weights(path, config), settings, threads=threads, step_seconds=step_seconds)

    def __enter__(self) -> InferenceEngine:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def weight_version(self) -> str:
        """Version of the weights that sample now."""
        return self._version

    @property
    def alive(self) -> bool:
        """Whether the decode loop runs."""
        return self._thread.is_alive() and self._broken is None

    @property
    def paused(self) -> bool:
        """Whether new requests wait for `resume`."""
        return self._pause != "no"

    def load(self) -> tuple[int, int]:
        """Running and waiting requests."""
        with self._condition:
            return len(self._running), len(self._waiting)

    def submit(self, requests: Sequence[GenerateRequest]) -> list[Future[GenerateResult]]:
        """Queue requests, all or none. Raises RequestRefused or EngineBroken."""
        futures: list[Future[GenerateResult]] = [Future() for _ in requests]
        with self._condition:
            self._require_alive()
            known = {request.rid for request, _ in self._waiting} | {r.request.rid for r in self._running}
            for request in requests:
                self._check(request, known)
                known.add(request.rid)
            self._waiting.extend(zip(requests, futures, strict=True))
            self._condition.notify_all()
        return futures

    def abort(self, rid: str | None = None) -> None:
        """End one request, or all of them; each answers with what it has and finish reason `abort`."""
        with self._condition:
            self._abort_waiting(rid)
            self._aborted |= {r.request.rid for r in self._running if rid in (None, r.request.rid)}
            self._condition.notify_all()

    def pause(self, *, keep_running: bool = False) -> None:
        """Stop admitting. Running requests are aborted, or stand still until `resume`."""
        if not keep_running:
            self.abort()
        with self._condition:
            self._pause = "all" if keep_running else "admission"
            self._condition.notify_all()

    def resume(self) -> None:
        """Admit again and go on with what stood still."""
        with self._condition:
            self._pause = "no"
            self._condition.notify_all()

    def flush_cache(self) -> bool:
        """Forget cached prefixes; False when requests are running."""
        with self._condition:
            if self._running:
                return False
            self._decoder.flush()
            return True

    def update_weights(
        self, weights: Mapping[str, Tensor], version: str | None, *, abort_running: bool = False
    ) -> Future[str]:
        """Swap weights once no request is running; resolves to the version. Raises RequestRefused, EngineBroken."""
        check_shapes(weights, self.config, where="update")
        if abort_running:
            self.abort()
        done: Future[str] = Future()
        with self._condition:
            self._require_alive()
            if self._pause == "all" and self._running and not abort_running:
                raise RequestRefused("requests stand still half-way: continue or abort them before new weights")
            self._updates.append(_Update(weights, version, done))
            self._condition.notify_all()
        return done

    def close(self) -> None:
        """Abort everything and end the thread."""
        self.abort()
        with self._condition:
            self._closed = True
            self._condition.notify_all()
        self._thread.join(timeout=10)

    def _loop(self) -> None:
        torch.set_num_threads(self._threads)
        try:
            while True:
                began = time.monotonic()
                with self._condition:
                    self._condition.wait_for(self._has_work)
                    if self._closed and not self._running:
                        return
                    self._finish_aborted()
                    self._apply_updates()
                    admitted = self._admit()
                    decoding = [] if self._pause == "all" else [r for r in self._running if r not in admitted]
                if admitted:
                    self._start(admitted)
                if decoding:
                    self._advance(decoding, self._decode(decoding))
                time.sleep(max(0.0, began + self._step_seconds - time.monotonic()))
        except BaseException as error:
            self._fail_all(error)
            raise

    def _has_work(self) -> bool:
        can_admit = bool(self._waiting) and self._pause == "no" and not self._updates
        can_decode = bool(self._running) and self._pause != "all"
        can_update = bool(self._updates) and not self._running
        return self._closed or bool(self._aborted) or can_admit or can_decode or can_update

    def _admit(self) -> list[_Running]:
        """Move requests from the queue into free slots, up to the prefill budget. Called under the lock."""
        admitted: list[_Running] = []
        budget = PREFILL_TOKENS
        while self._waiting and self._pause == "no" and not self._updates and not self._closed:
            request, future = self._waiting[0]
            if admitted and len(request.input_ids) > budget:
                break
            place = self._decoder.acquire(request.input_ids, most_cached=_most_cached(request))
            if place is None:
                break
            self._waiting.popleft()
            seed = request.params.seed
            random = np.random.default_rng(int(self._seeds.integers(2**63)) if seed is None else seed)
            admitted.append(_Running(request, future, place[0], place[1], random))
            budget -= len(request.input_ids) - place[1]
        self._running.extend(admitted)
        return admitted

    def _start(self, admitted: list[_Running]) -> None:
        """Compute the prompts and sample the first tokens; those that are scored go apart from the others."""
        scored = [r for r in admitted if r.request.is_scored]
        plain = [r for r in admitted if not r.request.is_scored]
        if plain:
            rest = [r.request.input_ids[r.cached_tokens :] for r in plain]
            self._advance(plain, self._decoder.prefill([r.slot for r in plain], rest))
        for running in scored:
            logits = self._score(running)
            if running.request.params.max_new_tokens:
                self._advance([running], logits)
            else:
                self._finish(running, "length")

    def _score(self, running: _Running) -> Tensor:
        """Logits (1, V) after the prompt, whose own log-probs are kept."""
        ids = running.request.input_ids
        score_from = len(ids) - 1 if running.request.score_from is None else running.request.score_from
        logits = self._decoder.prefill([running.slot], [ids[running.cached_tokens :]], every=True)
        # The logits after token i score token i + 1; the last ones are for sampling.
        scoring = logits[score_from - running.cached_tokens : -1].log_softmax(dim=-1)
        running.prompt_log_probs = tuple(scoring.gather(1, torch.tensor(ids[score_from + 1 :])[:, None])[:, 0].tolist())
        return logits[-1:]

    def _decode(self, running: list[_Running]) -> Tensor:
        return self._decoder.decode([r.slot for r in running], [r.output_ids[-1] for r in running])

    def _advance(self, batch: list[_Running], logits: Tensor) -> None:
        uniforms = [float(r.random.random()) for r in batch]
        tokens, log_probs = sample(logits, [r.request.params for r in batch], uniforms)
        for running, token, log_prob in zip(batch, tokens, log_probs, strict=True):
            running.output_ids.append(token)
            running.log_probs.append(log_prob)
            params = running.request.params
            if token in params.stop_token_ids:
                self._finish(running, "stop")
            elif len(running.output_ids) >= min(params.max_new_tokens, self._room(running.request)):
                self._finish(running, "length")

    def _finish(self, running: _Running, finish: Literal["stop", "length", "abort"]) -> None:
        routes = self._decoder.routes(running.slot) if running.request.return_routed_experts else None
        if routes is not None and not running.output_ids:
            # A row is what produced the next token's logits; nobody asked for those after the last one.
            routes = routes[:-1]
        with self._condition:
            self._decoder.release(running.slot)
            self._running.remove(running)
            self._aborted.discard(running.request.rid)
        result = GenerateResult(
            output_ids=tuple(running.output_ids),
            log_probs=tuple(running.log_probs),
            finish=finish,
            weight_version=self._version,
            cached_tokens=running.cached_tokens,
            routed_experts=routes,
            prompt_log_probs=running.prompt_log_probs,
        )
        _resolve(running.future, result)

    def _finish_aborted(self) -> None:
        for running in [r for r in self._running if r.request.rid in self._aborted]:
            self._finish(running, "abort")
        self._aborted.clear()

    def _abort_waiting(self, rid: str | None) -> None:
        kept: deque[tuple[GenerateRequest, Future[GenerateResult]]] = deque()
        for request, future in self._waiting:
            if rid in (None, request.rid):
                _resolve(future, GenerateResult((), (), "abort", self._version))
            else:
                kept.append((request, future))
        self._waiting = kept

    def _apply_updates(self) -> None:
        while self._updates and not self._running:
            update = self._updates.popleft()
            self._decoder.load(update.weights)
            self._version = update.version if update.version is not None else self._version
            _resolve(update.done, self._version)

    def _check(self, request: GenerateRequest, known: set[str]) -> None:
        if request.rid in known:
            raise RequestRefused(f"rid {request.rid!r} is already in use")
        if not request.input_ids:
            raise RequestRefused("input_ids is empty")
        least_room = min(1, request.params.max_new_tokens)
        if self._room(request) < least_room:
            longest = self.settings.max_context - least_room
            raise RequestRefused(f"input_ids has {len(request.input_ids)} tokens; this engine takes up to {longest}")
        wrong = next((token for token in request.input_ids if not 0 <= token < self.config.vocab_size), None)
        if wrong is not None:
            raise RequestRefused(f"input_ids holds {wrong}; ids run from 0 to {self.config.vocab_size - 1}")

    def _room(self, request: GenerateRequest) -> int:
        return self.settings.max_context - len(request.input_ids)

    def _require_alive(self) -> None:
        if self._closed or not self.alive:
            raise EngineBroken(f"the decode loop has ended: {self._broken!r}")

    def _fail_all(self, error: BaseException) -> None:
        with self._condition:
            self._broken = error
            for fail in self._open_futures():
                fail(EngineBroken(f"the decode loop died: {error!r}"))
            self._waiting.clear()
            self._running.clear()
            self._updates.clear()

    def _open_futures(self) -> Sequence[Callable[[BaseException], None]]:
        futures = [future for _, future in self._waiting] + [r.future for r in self._running]
        open_ones = [f.set_exception for f in futures if not f.done()]
        return open_ones + [update.done.set_exception for update in self._updates if not update.done.done()]


def _most_cached(request: GenerateRequest) -> int | None:
    """Prompt tokens that may come from the cache, which keeps no logits."""
    return None if request.score_from is None else min(request.score_from, len(request.input_ids) - 1)


def _resolve(future: Future[_T], value: _T) -> None:
    """Set a result unless its reader has gone."""
    if future.set_running_or_notify_cancel():
        future.set_result(value)
