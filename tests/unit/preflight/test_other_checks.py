"""cluster without one, inference, tracking and security."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from t1cli.cluster.node_probes import ClusterSaid, NodeSaid, node_names
from t1cli.preflight.check import Context
from t1cli.terminal.trajectory.routing import encode_routing
from tests.unit.preflight.conftest import Ask, MakeContext, nodes

T1 = "t1-strategy15k"
MODULES = "t1cli.preflight.probes.packages:modules"


def clustered(context: Context, said: ClusterSaid) -> Context:
    """A context whose cluster has answered already."""
    context.memo.once("cluster.said", lambda: said)
    return context


def node(name: str, gpus: float = 8.0, *, head: bool = False, **other: Any) -> NodeSaid:
    return NodeSaid(name, f"10.0.0.{len(name)}", head, {"GPU": gpus}, {}, **other)


def cluster(*found: NodeSaid, free: float = 128.0, soft: int = 65536) -> ClusterSaid:
    limits = {"node": found[0].name, "process": "raylet", "pid": 7, "soft": soft, "hard": 65536, "open": 10}
    return ClusterSaid("2.49.0", found, {"GPU": free}, (limits,))


SIXTEEN = [node(f"node-{'x' * number}") for number in range(16)]


def test_nodes_and_gpus_against_the_topology(context_of: MakeContext, ask: Ask) -> None:
    context = clustered(context_of(T1), cluster(*SIXTEEN))
    assert ask("cluster.resources", context).found == "16 nodes, 128 of 128 GPUs free, ray 2.49.0"
    assert ask("cluster.resources", context).status == "pass"
    few = clustered(context_of(T1), cluster(*SIXTEEN[:12], free=96))
    assert ask("cluster.resources", few).status == "fail"
    held = clustered(context_of(T1), cluster(*SIXTEEN, free=64))
    assert "cluster.occupied" in ask("cluster.resources", held).fix


@pytest.mark.catalogue("S8")
def test_the_running_raylets_limit_counts(context_of: MakeContext, ask: Ask) -> None:
    """320 trials once pushed a raylet past 1,024."""
    saw = ask("cluster.open_files", clustered(context_of(T1), cluster(*SIXTEEN, soft=1024)))
    assert saw.status == "fail" and "the raylet of node- may open 1024" in saw.found and "ray start" in saw.fix
    assert ask("cluster.open_files", clustered(context_of(T1), cluster(*SIXTEEN))).status == "pass"


@pytest.mark.catalogue("S10")
def test_trials_are_spread_over_nodes_and_not_over_the_head(context_of: MakeContext, ask: Ask) -> None:
    """560 trials on one node are more than the 320 that once broke a head."""
    alone = clustered(context_of(T1), cluster(node("head", head=True)))
    saw = ask("cluster.trial_nodes", alone)
    assert saw.status == "warn" and saw.found == "560 trials over 1 nodes: 560 each"
    spread = clustered(context_of(T1), cluster(node("head", head=True), *SIXTEEN[:7]))
    assert ask("cluster.trial_nodes", spread).found == "560 trials over 7 nodes: 80 each"


def test_small_nodes_clocks_and_firewalls(context_of: MakeContext, ask: Ask) -> None:
    off = node("late", 4.0, clock_offset_seconds=-30.0, unreachable={"head": "10.0.0.1: timed out"})
    good = [node(f"ok{'y' * n}", clock_offset_seconds=0.0) for n in range(3)]
    context = clustered(context_of(T1), cluster(*good, off))
    assert ask("host.clocks", context).found.startswith("late -30.0 s")
    assert ask("network.reachable", context).found == "late cannot reach head: 10.0.0.1: timed out"
    saw = ask("cluster.engines", clustered(context_of("qwen3-8b-grpo"), cluster(*good, node("small", 1.0))))
    assert saw.status == "warn" and saw.found == "small 1"


@pytest.mark.catalogue("C7")
def test_the_plugin_on_every_node(context_of: MakeContext, ask: Ask) -> None:
    there = {"t1cli": True, "pydantic": True, "slime": True}
    saw = ask("cluster.plugin", context_of(T1, fleet=nodes(MODULES, there, {**there, "pydantic": False}, there)))
    assert saw.status == "fail" and saw.found.startswith("node-1: pydantic cannot be found")
    saw = ask("cluster.plugin", context_of(T1, fleet=nodes(MODULES, {**there, "slime": False})))
    assert saw.found == "slime cannot be found on node-0" and "engine.slime_dir" in saw.fix


def test_nodes_with_one_host_name_are_told_apart() -> None:
    def ray_node(host: str, address: str, id_: str) -> dict[str, str]:
        return {"NodeManagerHostname": host, "NodeManagerAddress": address, "NodeID": id_}

    found = [
        ray_node("a", "10.0.0.1", "1" * 40),
        ray_node("b", "10.0.0.2", "2" * 40),
        ray_node("b", "10.0.0.3", "3" * 40),
    ]
    assert node_names(found) == ("a", "b (10.0.0.2)", "b (10.0.0.3)")
    same = [ray_node("a", "127.0.0.1", "1" * 40), ray_node("a", "127.0.0.1", "2" * 40)]
    assert node_names(same) == ("a (11111111)", "a (22222222)")


def test_a_cluster_that_is_away_fails_once_and_the_rest_waits(context_of: MakeContext, ask: Ask) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{closed.getsockname()[1]}"
        saw = ask("cluster.ray", context_of(T1, f"engine.ray_address={address}"))
    assert saw.status == "fail" and address in saw.found
    assert ask("cluster.ray", context_of(T1)).status == "skipped"
    for name in ("host.clocks", "network.reachable", "cluster.trial_nodes"):
        assert ask(name, context_of(T1)).status == "skipped", "no cluster is named"


@contextmanager
def engine(reply: Mapping[str, Any]) -> Iterator[str]:
    """An inference engine that answers /generate with one recorded reply."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("content-length", 0)))
            content = json.dumps(reply).encode()
            self.send_response(200)
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: Any) -> None:
            """Quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()


def reply(
    layers: int, top_k: int, *, rows: int = 11, ids: int = 4, scored: int = 4, routing: bool = True
) -> dict[str, Any]:
    """SGLang's answer to 8 prompt ids: `ids` sampled ones, so rows = 8 + 4 - 1."""
    meta: dict[str, Any] = {
        "output_token_logprobs": [[-0.5, number, None] for number in range(scored)],
        "finish_reason": {"type": "length"},
        "weight_version": "7",
    }
    if routing:
        meta["routed_experts"] = encode_routing(np.zeros((rows, layers, top_k), dtype=np.uint8))
    return {"output_ids": list(range(ids)), "meta_info": meta}


@pytest.mark.catalogue("F3", "F4")
def test_one_request_to_an_engine_shows_every_shape(context_of: MakeContext, ask: Ask) -> None:
    architecture = context_of(T1).spec.model.architecture
    layers, top_k = architecture.num_hidden_layers, architecture.num_experts_per_tok

    def saw(answer: Mapping[str, Any]) -> Any:
        with engine(answer) as url:
            return ask("inference.generate", context_of(T1, environment={"T1_ENGINE_URL": url}))

    good = saw(reply(layers, top_k))
    assert good.status == "pass" and f"routing (11, {layers}, {top_k}), version 7" in good.found
    assert saw(reply(layers, top_k, routing=False)).fix == "start the engine with --enable-return-routed-experts"
    assert "base64" in saw(reply(layers, top_k, rows=10)).found
    assert "do not match" in saw(reply(layers, top_k, scored=3)).found
    assert saw({"nothing": "useful"}).status == "fail"
    assert ask("inference.generate", context_of(T1)).status == "skipped"


def test_wandb_needs_a_key_and_a_way_out(
    context_of: MakeContext, ask: Ask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    online = "tracking.wandb={project: p}"
    assert ask("tracking.wandb", context_of("quickstart", online)).status == "fail"
    secret = {"WANDB_API_KEY": "k" * 40}
    saw = ask("tracking.wandb", context_of("quickstart", online, environment=secret))
    assert saw.status == "pass" and "k" * 40 not in str(saw)
    (tmp_path / ".netrc").write_text("machine api.wandb.ai login user password hidden-in-netrc\n")
    (tmp_path / ".netrc").chmod(0o600)
    saw = ask("tracking.wandb", context_of("quickstart", online))
    assert saw.status == "pass" and "hidden-in-netrc" not in str(saw)
    with socket.create_server(("127.0.0.1", 0)) as there:
        base = {"WANDB_BASE_URL": f"http://127.0.0.1:{there.getsockname()[1]}"}
        assert ask("tracking.wandb_reachable", context_of("quickstart", online, environment=base)).status == "pass"
    saw = ask("tracking.wandb_reachable", context_of("quickstart", online, environment=base))
    assert saw.status == "fail" and "offline" in saw.fix
    offline = "tracking.wandb={project: p, mode: offline}"
    assert ask("tracking.wandb_reachable", context_of("quickstart", offline)).status == "skipped"
    assert ask("tracking.wandb", context_of("quickstart", offline)).status == "pass"


def test_files_with_keys_that_others_may_read(
    context_of: MakeContext, ask: Ask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    token = tmp_path / "pool.tokens"
    token.write_text("name secret-value-0123\n")
    token.chmod(0o644)
    context = context_of("quickstart", environment={"T1_TOKEN_FILE": str(token)})
    saw = ask("security.secret_files", context)
    assert saw.status == "warn" and f"{token} (mode 644)" in saw.found and "secret-value-0123" not in str(saw)
    token.chmod(0o600)
    assert ask("security.secret_files", context).status == "pass"
    ray_token = tmp_path / ".ray/auth_token"
    ray_token.parent.mkdir()
    ray_token.write_text("t")
    ray_token.chmod(0o644)
    assert ask("cluster.token", context).status == "warn"


def test_secrets_in_the_spec_and_runs_that_everybody_writes(context_of: MakeContext, ask: Ask, tmp_path: Path) -> None:
    for name in ("MY_API_KEY", "AWS_ACCESS_KEY", "DB_PASSPHRASE", "GOOGLE_CREDENTIALS"):
        saw = ask("security.inherited", context_of(T1, f"engine.env.{name}=abcdef123456"))
        assert saw.status == "fail" and name in saw.found and "abcdef123456" not in str(saw), (
            "as launch would refuse it"
        )
    assert ask("security.inherited", context_of(T1, "engine.env.MAX_TOKENS='4096'")).status == "pass"
    context = context_of("quickstart", environment={"HF_TOKEN": "hf_x"})
    assert ask("security.inherited", context).found.endswith("in this environment: HF_TOKEN")
    context.runs_dir.mkdir()
    context.runs_dir.chmod(0o777)
    assert ask("security.runs_directory", context).status == "warn"
    assert ask("security.runs_directory", replace(context, runs_dir=tmp_path / "a/b")).status == "pass"
