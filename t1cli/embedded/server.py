"""An inference server that speaks the part of SGLang's native API that slime's rollouts use.

`python -m t1cli.embedded.server --checkpoint DIRECTORY --port 0` prints `{"host": …, "port": …, "pid": …}` when ready.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import socket
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import uvicorn

from t1cli.embedded.decoder import DecoderSettings
from t1cli.embedded.generate_wire import BadRequest, answer, parse_generate
from t1cli.embedded.inference import EngineBroken, GenerateRequest, GenerateResult, InferenceEngine, RequestRefused
from t1cli.embedded.sampling import SamplingParams
from t1cli.embedded.weights import read_weights
from t1cli.errors import BadInput

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[MutableMapping[str, Any], Receive, Send], Awaitable[None]]

BACKLOG = 2048
"""Connections that wait to be accepted, as many as uvicorn lets."""
MAX_BODY_BYTES = 64 * 1024 * 1024
HEALTH_SECONDS = 20.0


@dataclass(frozen=True)
class Answer:
    """Status and JSON of one response."""

    body: Any
    status: int = 200


class _Disconnected(Exception):
    """The client has gone; nobody reads the answer."""


def create_app(engine: InferenceEngine) -> App:
    """The ASGI application over an engine; the caller closes the engine."""
    return _Server(engine)


class _Server:
    def __init__(self, engine: InferenceEngine) -> None:
        self._engine = engine
        self._routes: dict[str, tuple[tuple[str, ...], Callable[[Any, Receive], Awaitable[Answer]]]] = {
            "/generate": (("POST",), self._generate),
            "/abort_request": (("POST",), self._abort),
            "/pause_generation": (("POST",), self._pause),
            "/continue_generation": (("POST",), self._continue),
            "/flush_cache": (("GET", "POST"), self._flush),
            "/update_weights_from_disk": (("POST",), self._update),
            "/health": (("GET",), self._health),
            "/health_generate": (("GET",), self._health_generate),
            **dict.fromkeys(("/get_model_info", "/model_info"), (("GET",), self._model_info)),
            **dict.fromkeys(("/get_server_info", "/server_info"), (("GET",), self._server_info)),
        }

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await _lifespan(receive, send)
        elif scope["type"] == "http":
            try:
                result = await self._respond(scope, receive)
            except _Disconnected:
                return
            await _send_json(send, result)

    async def _respond(self, scope: MutableMapping[str, Any], receive: Receive) -> Answer:
        """The one place where failures become statuses."""
        methods, handler = self._routes.get(scope["path"], ((), None))
        if handler is None:
            return _error(404, f"no such path: {scope['path']}")
        if scope["method"] not in methods:
            return _error(405, f"{scope['path']} takes {' or '.join(methods)}, not {scope['method']}")
        try:
            return await handler(await _read_json(receive) if scope["method"] == "POST" else {}, receive)
        except (BadRequest, RequestRefused, BadInput) as error:
            return _error(400, str(error))
        except EngineBroken as error:
            return _error(500, str(error))

    async def _generate(self, body: Any, receive: Receive) -> Answer:
        parsed = parse_generate(body)
        futures = [asyncio.wrap_future(future) for future in self._engine.submit(parsed.requests)]
        results = await self._until_done(parsed.requests, futures, receive)
        answers = [
            answer(request, result, return_logprob=parsed.return_logprob)
            for request, result in zip(parsed.requests, results, strict=True)
        ]
        return Answer(answers if parsed.batched else answers[0])

    async def _until_done(
        self, requests: tuple[GenerateRequest, ...], futures: list[asyncio.Future[GenerateResult]], receive: Receive
    ) -> list[GenerateResult]:
        """Results in order; a client that goes away aborts what it asked for."""
        together = asyncio.gather(*futures)
        gone = asyncio.ensure_future(_wait_for_disconnect(receive))
        try:
            either: set[asyncio.Future[Any]] = {together, gone}
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            if together.done():
                return await together
            raise _Disconnected
        finally:
            gone.cancel()
            if not together.done():
                for request in requests:
                    self._engine.abort(request.rid)
                # Swallow the partial answers; nobody is left to read them.
                together.add_done_callback(lambda done: done.cancelled() or done.exception())

    async def _abort(self, body: Any, receive: Receive) -> Answer:
        rid, everything = _object(body).get("rid"), bool(_object(body).get("abort_all"))
        if not everything and (not isinstance(rid, str) or not rid):
            raise BadRequest("give `rid`, or `abort_all`: true")
        self._engine.abort(None if everything else rid)
        return Answer({"success": True})

    async def _pause(self, body: Any, receive: Receive) -> Answer:
        mode = _object(body).get("mode", "abort")
        if mode not in ("abort", "in_place"):
            raise BadRequest(f"`mode` must be abort or in_place, found {mode!r}")
        self._engine.pause(keep_running=mode == "in_place")
        return Answer({"status": "ok", "message": "generation paused"})

    async def _continue(self, body: Any, receive: Receive) -> Answer:
        self._engine.resume()
        return Answer({"status": "ok", "message": "generation continued"})

    async def _flush(self, body: Any, receive: Receive) -> Answer:
        if self._engine.flush_cache():
            return Answer({"success": True, "message": "cache flushed"})
        return _error(400, "requests are running; the cache was not flushed")

    async def _update(self, body: Any, receive: Receive) -> Answer:
        fields = _object(body)
        path, version = fields.get("model_path"), fields.get("weight_version")
        if not isinstance(path, str) or not path:
            raise BadRequest("`model_path` must be a directory or a safetensors file")
        if version is not None and not isinstance(version, str):
            raise BadRequest(f"`weight_version` must be a string, found {version!r}")
        try:
            weights = await asyncio.to_thread(read_weights, Path(path), self._engine.config)
            done = self._engine.update_weights(weights, version, abort_running=bool(fields.get("abort_all_requests")))
        except (BadInput, RequestRefused) as error:
            return _error(400, str(error))
        now = await asyncio.wrap_future(done)
        return Answer({"success": True, "message": f"weights are version {now}"})

    async def _health(self, body: Any, receive: Receive) -> Answer:
        return Answer({"status": "ok"}) if self._engine.alive else _error(503, "the decode loop has ended")

    async def _health_generate(self, body: Any, receive: Receive) -> Answer:
        """Really samples one token, unless sampling is paused."""
        if not self._engine.alive or self._engine.paused:
            return await self._health(body, receive)
        probe = GenerateRequest(f"health-{os.urandom(8).hex()}", (1,), SamplingParams(max_new_tokens=1))
        try:
            future = asyncio.wrap_future(self._engine.submit([probe])[0])
            await asyncio.wait_for(future, HEALTH_SECONDS)
        except TimeoutError:
            return _error(503, f"no token within {HEALTH_SECONDS:g} s")
        return Answer({"status": "ok"})

    async def _model_info(self, body: Any, receive: Receive) -> Answer:
        return Answer({"model_type": "t1-tiny", "is_generation": True, "weight_version": self._engine.weight_version})

    async def _server_info(self, body: Any, receive: Receive) -> Answer:
        running, waiting = self._engine.load()
        settings, config = self._engine.settings, self._engine.config
        return Answer(
            {
                "weight_version": self._engine.weight_version,
                "running_requests": running,
                "waiting_requests": waiting,
                "paused": self._engine.paused,
                "max_running_requests": settings.slots,
                "context_length": settings.max_context,
                "dtype": str(settings.dtype).removeprefix("torch."),
                "router_noise": settings.router_noise,
                "num_layers": config.num_layers,
                "moe_router_topk": config.experts_per_token,
                "vocab_size": config.vocab_size,
                "enable_return_routed_experts": True,
            }
        )


async def _read_json(receive: Receive) -> Any:
    chunks: list[bytes] = []
    more, size = True, 0
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise _Disconnected
        chunks.append(message.get("body", b""))
        size += len(chunks[-1])
        if size > MAX_BODY_BYTES:
            raise BadRequest(f"the body is over {MAX_BODY_BYTES} bytes")
        more = message.get("more_body", False)
    body = b"".join(chunks)
    try:
        return json.loads(body) if body else {}
    except (ValueError, RecursionError) as error:
        raise BadRequest(f"the body is no JSON: {error}") from error


async def _wait_for_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _send_json(send: Send, result: Answer) -> None:
    body = json.dumps(result.body).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": result.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def _lifespan(receive: Receive, send: Send) -> None:
    while (kind := (await receive())["type"]) in ("lifespan.startup", "lifespan.shutdown"):
        await send({"type": f"{kind}.complete"})
        if kind == "lifespan.shutdown":
            return


def _object(body: Any) -> dict[str, Any]:
    if not isinstance(body, dict):
        raise BadRequest(f"expected one JSON object, found {type(body).__name__}")
    return body


def _error(status: int, message: str) -> Answer:
    return Answer({"success": False, "message": message, "error": {"message": message, "code": status}}, status)


def listen(host: str, port: int) -> socket.socket:
    """A socket that takes connections from now on, answered once it is served; port 0 takes a free one.

    Its port is told before the server runs: whoever asks at once waits then, and is not refused.
    """
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.bind((host, port))
    sock.listen(BACKLOG)
    return sock


def serve(engine: InferenceEngine, sock: socket.socket) -> None:
    """Answer on a bound socket until SIGINT or SIGTERM, then close the engine."""
    config = uvicorn.Config(create_app(engine), log_level="warning", access_log=False, timeout_graceful_shutdown=5)
    try:
        uvicorn.Server(config).run(sockets=[sock])
    finally:
        engine.close()


def main(arguments: list[str] | None = None) -> None:
    """Serve one checkpoint."""
    parser = argparse.ArgumentParser(description="Serve a tiny MoE checkpoint over SGLang's native API.")
    parser.add_argument("--checkpoint", type=Path, required=True, help="directory or file written by save_weights")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one")
    parser.add_argument("--max-batch", type=int, default=32)
    parser.add_argument("--max-context", type=int, default=512)
    parser.add_argument("--dtype", choices=("bf16", "fp32"), default="bf16")
    parser.add_argument("--router-noise", type=float, default=0.0)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--step-seconds", type=float, default=0.0, help="least time between two decoding steps")
    options = parser.parse_args(arguments)
    settings = DecoderSettings(
        slots=options.max_batch,
        max_context=options.max_context,
        dtype=torch.bfloat16 if options.dtype == "bf16" else torch.float32,
        router_noise=options.router_noise,
        seed=options.seed,
    )
    engine = InferenceEngine.from_file(
        options.checkpoint, settings, threads=options.threads, step_seconds=options.step_seconds
    )
    sock = listen(options.host, options.port)
    host, port = sock.getsockname()[:2]
    print(json.dumps({"host": host, "port": port, "pid": os.getpid()}), flush=True)
    serve(engine, sock)


if __name__ == "__main__":
    main()
