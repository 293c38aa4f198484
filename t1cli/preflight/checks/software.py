"""software: installed versions against what was tested, and settings that would be inherited."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from typing import Any

from t1cli.preflight.check import Check, Context, Saw, failed, passed, skipped, warned
from t1cli.preflight.every_node import AcrossNodes, EveryNode, outliers
from t1cli.preflight.fleet import Probe
from t1cli.preflight.tested import EMBEDDED, SLIME, numbers, problem_of

REPORTER_LEAST = "0.5.3"
"""Older pytest-json-ctrf merges the cases of a parametrised test, and may hide a failing one behind a skipped one."""


def packages(context: Context, found: Any) -> Saw:
    """The packages that the engine needs are installed, as tested; numpy 2 stops slime's trainers."""
    if not context.on_slime:
        return _embedded_packages(found)
    problems = [problem for name, tested in SLIME.items() if (problem := problem_of(name, found[name], tested))]
    said = ", ".join(f"{name} {found[name]}" for name in SLIME if found[name])
    wanted = "the versions of slime 0.3.0's image"
    breaking = [text for text, breaks in problems if breaks]
    if breaking:
        return failed("; ".join(breaking), wanted, "use slime's image, or install these versions on every node")
    if problems:
        return warned(
            "; ".join(text for text, _ in problems), wanted, "use slime's image, or rehearse with these versions"
        )
    return passed(said, wanted)


def _embedded_packages(found: Any) -> Saw:
    missing = [name for name in EMBEDDED if found[name] is None]
    wanted = "the embedded engine's packages"
    if missing:
        return failed("missing: " + ", ".join(missing), wanted, 'pip install "t1cli[embedded]"')
    return passed(", ".join(f"{name} {found[name]}" for name in EMBEDDED), wanted)


def _packages(context: Context) -> Probe:
    names = [*SLIME, "pytest-json-ctrf"] if context.on_slime else [*EMBEDDED]
    return Probe("t1cli.preflight.probes.packages:packages", {"names": names})


def equal(context: Context, found: Mapping[str, Any]) -> Saw:
    """Every node has the same versions: one that differs fails late, or trains on other numbers."""
    apart = outliers(found)
    if not apart:
        return passed(f"equal on {len(found)} nodes" if len(found) > 1 else "one node", "equal on all nodes")
    usual = next(said for node, said in found.items() if node not in apart)
    told = [
        f"{node}: {name} {said[name]} instead of {usual[name]}"
        for node, said in apart.items()
        for name in said
        if said[name] != usual[name]
    ]
    return failed(
        "; ".join(told[:6]), "equal on all nodes", f"start {', '.join(apart)} from the same image as the others"
    )


def _equal(context: Context) -> Probe | Saw:
    return _packages(context) if context.fleet.is_cluster else skipped("one machine")


def reporter(context: Context, found: Any) -> Saw:
    """pytest-json-ctrf where verifiers run outside images of their own: its version decides how tests are counted."""
    version = found["pytest-json-ctrf"]
    wanted = f"pytest-json-ctrf {REPORTER_LEAST} or newer"
    fix = f"pip install 'pytest-json-ctrf>={REPORTER_LEAST}'"
    if version is None:
        return failed("not installed: every test.sh with --ctrf ends in a usage error", wanted, fix)
    if numbers(version) < numbers(REPORTER_LEAST):
        return warned(f"{version} merges the cases of a parametrised test into one", wanted, fix)
    return passed(f"pytest-json-ctrf {version}", wanted)


def _reporter(context: Context) -> Probe | Saw:
    if context.spec.reward.kind == "binary":
        return skipped("reward.kind is binary: no per-test report is needed")
    if context.spec.sandbox.kind != "local":
        return skipped("verifiers run in images of their own; tasks.ctrf_coverage samples what they report")
    return Probe("t1cli.preflight.probes.packages:packages", {"names": ["pytest-json-ctrf"]})


def allocator(context: Context) -> Saw:
    """expandable_segments excludes the memory saver that PPO's offload needs (torch_memory_saver raises on it)."""
    if not context.on_slime:
        return skipped("the embedded engine allocates no GPU memory")
    return _judge_allocator(context, context.environment)


def memory_saver(context: Context, found: Any) -> Saw:
    """torch_memory_saver with its preload library where trainers are offloaded, and no allocator setting it refuses."""
    wanted = "torch-memory-saver with a preload library, no expandable_segments"
    if found["version"] is None:
        return failed("torch-memory-saver is not installed", wanted, "install the commit of slime's Dockerfile")
    if not found["preload"]:
        return failed(
            f"torch-memory-saver {found['version']} has no preload library", wanted, "build it with CUDA on this image"
        )
    saw = _judge_allocator(context, found["allocator"])
    return saw if saw.status == "fail" else passed(f"{found['version']}, {', '.join(found['preload'])}", wanted)


def _memory_saver(context: Context) -> Probe | Saw:
    if not _offloads(context):
        return skipped("trainers are not offloaded")
    return Probe("t1cli.preflight.probes.packages:memory_saver")


def _judge_allocator(context: Context, environment: Any) -> Saw:
    for name in ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"):
        value = environment.get(name, "")
        if _offloads(context) and "expandable_segments:true" in value.replace(" ", "").lower():
            wanted = "no expandable_segments where the trainer is offloaded"
            return failed(f"{name}={value} in this environment", wanted, f"unset {name}")
    return passed("no expandable_segments in this environment", "none")


def _offloads(context: Context) -> bool:
    return context.on_slime and (context.spec.algorithm.kind == "ppo" or context.spec.trainer.offload_train)


def libraries(context: Context, found: Any) -> Saw:
    """Shared libraries that compiled packages ask for are on the loader's path."""
    lacking = {name: missing for name, missing in found.items() if missing}
    wanted = "every library found by the loader"
    if not lacking:
        return passed(f"{', '.join(found) or 'nothing installed'} complete", wanted)
    told = "; ".join(f"{name} lacks {', '.join(missing)}" for name, missing in lacking.items())
    return failed(told, wanted, "add their directories to LD_LIBRARY_PATH before `ray start`, or run ldconfig")


def _libraries(context: Context) -> Probe | Saw:
    if not context.on_slime:
        return skipped("the embedded engine uses torch for CPUs only")
    names = ["transformer-engine-torch", "transformer-engine-cu12", "sgl-kernel", "flash-attn", "torch-memory-saver"]
    return Probe("t1cli.preflight.probes.packages:missing_libraries", {"names": names})


def gradient_fusion(context: Context, found: Any) -> Saw:
    """Megatron's fused gradient accumulation is on by default and needs Apex's kernel or Transformer Engine."""
    wanted = "transformer_engine, or Apex's fused_weight_gradient_mlp_cuda"
    have = [name for name, there in found.items() if there]
    off = context.spec.slime_args.get("no_gradient_accumulation_fusion") or context.spec.slime_args.get(
        "no-gradient-accumulation-fusion"
    )
    if have or off:
        return passed(", ".join(have) or "switched off by slime_args", wanted)
    fix = "install Transformer Engine, or --set slime_args.no-gradient-accumulation-fusion=true (slower)"
    return failed("neither is installed", wanted, fix)


def _gradient_fusion(context: Context) -> Probe | Saw:
    if not context.on_slime:
        return skipped("the embedded engine has no Megatron")
    names = ["transformer_engine", "fused_weight_gradient_mlp_cuda"]
    return Probe("t1cli.preflight.probes.packages:modules", {"names": names})


def harbor(context: Context, found: Any) -> Saw:
    """Sandboxes of Harbor need a Python of 3.12 or newer that has its package, in the version that is tested."""
    from t1cli.terminal.sandbox.harbor.interpreter import OLDEST, OLDEST_PYTHON, TESTED

    python = context.spec.sandbox.python if context.spec.sandbox.kind == "harbor" else None
    wanted = f"harbor {TESTED} on Python 3.12 or newer"
    fix = f"python3.12 -m venv DIR && DIR/bin/pip install harbor=={TESTED}, then --set sandbox.python=DIR/bin/python"
    if found["problem"]:
        return failed(f"{python or 'this Python'} cannot be asked: {found['problem']}", wanted, fix)
    said = f"Python {found['python']}, harbor {found['harbor'] or 'not installed'}"
    if found["harbor"] is None or numbers(found["python"]) < OLDEST_PYTHON:
        return failed(said, wanted, fix)
    if numbers(found["harbor"]) < OLDEST:
        return failed(f"{said}: it names its timeouts otherwise", wanted, fix)
    if found["harbor"] != TESTED:
        return warned(f"{said}: its releases rename arguments, and this one is not tested", wanted, fix)
    return passed(said, wanted)


def _harbor(context: Context) -> Probe | Saw:
    if context.spec.sandbox.kind != "harbor":
        return skipped(f"sandbox.kind is {context.spec.sandbox.kind}")
    return Probe("t1cli.preflight.probes.harbor:versions", {"python": context.spec.sandbox.python})


def bubblewrap(context: Context) -> Saw:
    """Local sandboxes are isolated only where bubblewrap is installed."""
    if context.spec.sandbox.kind != "local":
        # Not skipped: what needs it where sandboxes are local must be asked elsewhere, too.
        return passed(f"not needed: sandbox.kind is {context.spec.sandbox.kind}")
    path = shutil.which("bwrap")
    if path is not None:
        return passed(f"bwrap at {path}", "bubblewrap installed")
    if context.spec.sandbox.backend == "bubblewrap":
        return failed("no bwrap on PATH", "bubblewrap, as sandbox.backend asks", "apt-get install bubblewrap")
    return warned(
        "no bwrap on PATH: commands run as plain processes of this user",
        "bubblewrap installed",
        "apt-get install bubblewrap; plain processes isolate nothing and need trusted tasks",
    )


CHECKS = (
    Check("software.packages", ("C7",), EveryNode(_packages, packages)),
    Check("software.equal", ("C7",), AcrossNodes(_equal, equal)),
    Check("software.reporter", ("C7", "R1"), EveryNode(_reporter, reporter)),
    Check("software.allocator", ("M9",), allocator),
    Check("software.memory_saver", ("M9",), EveryNode(_memory_saver, memory_saver)),
    Check("software.libraries", ("C7",), EveryNode(_libraries, libraries)),
    Check("software.gradient_fusion", ("C7",), EveryNode(_gradient_fusion, gradient_fusion)),
    Check("software.harbor", ("C7",), EveryNode(_harbor, harbor)),
    Check("software.bubblewrap", ("R11",), bubblewrap),
)
