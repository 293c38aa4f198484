"""The inference server as an object in a process of its own: started once, then given new weights between rollouts."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping

import torch
from torch import Tensor

from t1cli.embedded.decoder import DecoderSettings
from t1cli.embedded.inference import SHARED_STEP_SECONDS, InferenceEngine
from t1cli.embedded.model import TinyMoEConfig
from t1cli.embedded.server import listen, serve
from t1cli.errors import T1Error
from t1cli.spec.engine import EmbeddedEngine
from t1cli.spec.experiment import ExperimentSpec

_BARRIER_SECONDS = 60.0
_LOOK_SECONDS = 0.5


class InferenceProcess:
    """One engine behind HTTP on a free loopback port."""

    def __init__(self, spec: ExperimentSpec) -> None:
        assert isinstance(spec.engine, EmbeddedEngine)
        self._spec, self._options = spec, spec.engine
        self._engine: InferenceEngine | None = None

    def start(self, weights: Mapping[str, Tensor], version: int) -> str:
        """Begin to answer; returns the URL."""
        torch.set_num_threads(self._options.server_threads)
        config = TinyMoEConfig.from_architecture(self._spec.model.architecture)
        self._engine = InferenceEngine(
            config,
            weights,
            self._settings(),
            weight_version=str(version),
            threads=self._options.server_threads,
            step_seconds=SHARED_STEP_SECONDS,
        )
        sock = listen("127.0.0.1", 0)
        threading.Thread(target=serve, args=(self._engine, sock), name="http", daemon=True).start()
        host, port = sock.getsockname()[:2]
        return f"http://{host}:{port}"

    def publish(self, weights: Mapping[str, Tensor], version: int) -> int:
        """Take new weights behind the barrier; returns the version that samples from now on.

        Raises T1Error when requests are still in flight: the caller has to end its rollout first.
        """
        assert self._engine is not None, "start comes first"
        running, waiting = self._engine.load()
        if running or waiting:
            raise T1Error(f"weights {version} came while {running} requests ran and {waiting} waited")
        return int(self._engine.update_weights(weights, str(version)).result(timeout=_BARRIER_SECONDS))

    def wait_for_end(self) -> None:
        """Return never while the decode loop runs; raises T1Error when it has died."""
        assert self._engine is not None, "start comes first"
        while self._engine.alive:
            time.sleep(_LOOK_SECONDS)
        raise T1Error("the inference server's decode loop has died", hint="its output under logs/ray/")

    def _settings(self) -> DecoderSettings:
        evaluation = self._spec.evaluation
        longest = max(self._spec.rollout.context_tokens, 0 if evaluation is None else evaluation.context_tokens)
        return DecoderSettings(
            slots=self._options.max_batch,
            max_context=longest,
            dtype=torch.bfloat16 if self._options.router_dtype == "bf16" else torch.float32,
            router_noise=self._options.router_noise,
            seed=self._spec.seed + self._options.seed_offset,
        )
