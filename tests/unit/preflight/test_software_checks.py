"""software: wrong versions really on the import path, a really modified checkout, settings that would be inherited."""

from __future__ import annotations

import base64
import hashlib
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from t1cli.preflight.probes.harbor import versions
from t1cli.preflight.probes.packages import missing_libraries, modules, not_found, packages, torch_cuda
from t1cli.preflight.probes.trees import swallows_communication_errors, tree
from t1cli.preflight.tested import SLIME, numbers, problem_of
from tests.unit.preflight.conftest import Ask, MakeContext, nodes, one

HARBOR = "t1cli.preflight.probes.harbor:versions"
PACKAGES = "t1cli.preflight.probes.packages:packages"
SAVER = "t1cli.preflight.probes.packages:memory_saver"
LIBRARIES = "t1cli.preflight.probes.packages:missing_libraries"
MODULES = "t1cli.preflight.probes.packages:modules"
TREES = "t1cli.preflight.probes.trees:trees"
SGLANG = "t1cli.preflight.probes.sglang_files:sglang_files"
T1 = "t1-strategy15k"


def install(site: Path, name: str, version: str, files: dict[str, str] | None = None) -> None:
    """A package as pip leaves it: its metadata, a record, and its files."""
    metadata = site / f"{name.replace('-', '_')}-{version}.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    for path, content in (files or {}).items():
        (site / path).parent.mkdir(parents=True, exist_ok=True)
        (site / path).write_text(content)
    digests = {path: recorded_digest(content) for path, content in (files or {}).items()}
    (metadata / "RECORD").write_text("".join(f"{path},sha256={digest},1\n" for path, digest in digests.items()))


def recorded_digest(content: str) -> str:
    """As a wheel's record writes it."""
    return base64.urlsafe_b64encode(hashlib.sha256(content.encode()).digest()).rstrip(b"=").decode()


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory in front of the import path."""
    place = tmp_path / "site"
    place.mkdir()
    monkeypatch.syspath_prepend(str(place))
    return place


def matrix() -> dict[str, str]:
    found = {name: one_.version for name, one_ in SLIME.items()}
    return {"python": "3.12.3", **found, "numpy": "1.26.4", "pytest-json-ctrf": "0.6.1"}


@pytest.mark.catalogue("C7")
def test_versions_that_are_really_installed_wrong(context_of: MakeContext, ask: Ask, site: Path) -> None:
    for name, version in {**matrix(), "numpy": "2.1.0", "sglang": "0.4.0"}.items():
        if name != "python":
            install(site, name, version)
    assert packages(["numpy"])["numpy"] == "2.1.0"
    saw = ask("software.packages", context_of(T1))  # this very process is the node
    assert saw.status == "fail" and "numpy 2.1.0, wanted below 2: every trainer stops" in saw.found


@pytest.mark.catalogue("C7")
def test_the_tested_matrix(context_of: MakeContext, ask: Ask) -> None:
    assert ask("software.packages", context_of(T1, fleet=one(PACKAGES, matrix()))).status == "pass"
    untested = matrix() | {"sglang": "0.5.13"}
    saw = ask("software.packages", context_of(T1, fleet=one(PACKAGES, untested)))
    assert saw.status == "warn" and saw.found == "sglang 0.5.13, tested with 0.5.12.post1"
    missing: dict[str, Any] = matrix() | {"transformer-engine": None}
    assert ask("software.packages", context_of(T1, fleet=one(PACKAGES, missing))).status == "fail"
    assert numbers("2.11.0+cu129") == (2, 11, 0) and problem_of("torch", "2.11.0+cu129", SLIME["torch"]) is None


@pytest.mark.catalogue("C7")
def test_a_node_from_another_image_is_named(context_of: MakeContext, ask: Ask) -> None:
    odd = matrix() | {"torch": "2.9.0"}
    saw = ask("software.equal", context_of(T1, fleet=nodes(PACKAGES, matrix(), odd, matrix())))
    assert saw.status == "fail" and saw.found == "node-1: torch 2.9.0 instead of 2.11.0"


def test_the_reporter_that_merges_cases(context_of: MakeContext, ask: Ask, site: Path) -> None:
    install(site, "pytest-json-ctrf", "0.3.5")
    saw = ask("software.reporter", context_of("quickstart"))
    assert saw.status == "warn" and saw.found.startswith("0.3.5 merges")
    absent = one(PACKAGES, {"python": "3.12", "pytest-json-ctrf": None})
    assert ask("software.reporter", context_of("quickstart", fleet=absent)).status == "fail"


@pytest.mark.catalogue("C7")
def test_harbor_needs_its_python(context_of: MakeContext, ask: Ask) -> None:
    for python, harbor, status in (
        ("3.11.2", "0.26.0", "fail"),
        ("3.12.1", "0.13.0", "fail"),
        ("3.12.1", None, "fail"),
        ("3.12.1", "0.26.0", "pass"),
        ("3.13.0", "0.27.1", "warn"),
    ):
        said = {"python": python, "harbor": harbor, "problem": None}
        assert ask("software.harbor", context_of(T1, fleet=one(HARBOR, said))).status == status
    broken = {"python": None, "harbor": None, "problem": "FileNotFoundError: /opt/none"}
    saw = ask("software.harbor", context_of(T1, "sandbox.python=/opt/none", fleet=one(HARBOR, broken)))
    assert (saw.status, saw.found) == ("fail", "/opt/none cannot be asked: FileNotFoundError: /opt/none")


def test_harbors_python_is_asked_itself(tmp_path: Path) -> None:
    assert versions(None)["python"] == ".".join(map(str, sys.version_info[:3]))
    assert versions(str(tmp_path / "absent"))["problem"].startswith("FileNotFoundError")
    assert versions("/bin/false")["problem"].startswith("CalledProcessError")


@pytest.mark.catalogue("M9")
def test_expandable_segments_here_and_on_a_node(context_of: MakeContext, ask: Ask) -> None:
    inherited = {"PYTORCH_CUDA_ALLOC_CONF": "max_split_size_mb:64, expandable_segments: True"}
    saw = ask("software.allocator", context_of(T1, environment=inherited))
    assert saw.status == "fail" and saw.fix == "unset PYTORCH_CUDA_ALLOC_CONF"
    assert ask("software.allocator", context_of(T1)).status == "pass"
    saver = {"version": "0.0.9", "preload": ["torch_memory_saver_hook_mode_preload.abi3.so"], "allocator": {}}
    bad = {**saver, "allocator": {"PYTORCH_ALLOC_CONF": "expandable_segments:True"}}
    saw = ask("software.memory_saver", context_of(T1, fleet=nodes(SAVER, saver, bad, saver)))
    assert saw.status == "fail" and saw.found.startswith("node-1: PYTORCH_ALLOC_CONF")
    for broken in ({**saver, "version": None}, {**saver, "preload": []}):
        assert ask("software.memory_saver", context_of(T1, fleet=one(SAVER, broken))).status == "fail"


@pytest.mark.catalogue("C7")
def test_a_library_that_the_loader_really_does_not_find(context_of: MakeContext, ask: Ask, site: Path) -> None:
    """A shared object is linked against a library that is then removed."""
    (site / "sgl_kernel").mkdir()
    for command in (
        ["gcc", "-shared", "-o", str(site / "libt1gone.so.7"), "-x", "c", "/dev/null", "-Wl,-soname,libt1gone.so.7"],
        [
            "gcc",
            "-shared",
            "-o",
            str(site / "sgl_kernel/ops.so"),
            "-x",
            "c",
            "/dev/null",
            "-Wl,--no-as-needed",
            "-x",
            "none",
            str(site / "libt1gone.so.7"),
        ],
    ):
        try:
            subprocess.run(command, check=True, capture_output=True)
        except FileNotFoundError:
            pytest.skip("no compiler to make a shared object with")
    (site / "libt1gone.so.7").unlink()
    content = (site / "sgl_kernel/ops.so").read_bytes()
    install(site, "sgl-kernel", "0.3", {"sgl_kernel/__init__.py": "", "sgl_kernel/ops.so": ""})
    (site / "sgl_kernel/ops.so").write_bytes(content)
    assert missing_libraries(["sgl-kernel", "absent"]) == {"sgl-kernel": ["libt1gone.so.7"]}
    saw = ask("software.libraries", context_of(T1, fleet=one(LIBRARIES, {"sgl-kernel": ["libt1gone.so.7"]})))
    assert saw.status == "fail" and "LD_LIBRARY_PATH" in saw.fix
    assert not_found("\tlibcudart.so.12 => not found\n\tlibc.so.6 => /lib/libc.so.6 (0x1)\n") == ["libcudart.so.12"]


@pytest.mark.catalogue("C7")
def test_gradient_fusion_needs_a_kernel(context_of: MakeContext, ask: Ask) -> None:
    none = {"transformer_engine": False, "fused_weight_gradient_mlp_cuda": False}
    assert ask("software.gradient_fusion", context_of(T1, fleet=one(MODULES, none))).status == "fail"
    off = context_of(T1, "slime_args.no_gradient_accumulation_fusion=true", fleet=one(MODULES, none))
    assert ask("software.gradient_fusion", off).status == "pass"
    assert modules(["json", "nonesuch_module"]) == {"json": True, "nonesuch_module": False}


def test_torchs_cuda_is_read_without_importing_it(site: Path) -> None:
    install(site, "torch", "2.11.0", {"torch/version.py": "cuda: Optional[str] = '12.9'\n"})
    assert torch_cuda() == "12.9"


def git(place: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "init.defaultBranch=main"]
    done = subprocess.run(["git", *identity, "-C", str(place), *arguments], check=True, capture_output=True, text=True)
    return done.stdout.strip()


SWALLOWING = """
def push(tensor):
    try:
        dist.all_reduce(tensor)
    except Exception:
        pass
"""


@pytest.mark.catalogue("C7", "C4")
def test_a_checkout_that_was_really_changed(context_of: MakeContext, ask: Ask, tmp_path: Path) -> None:
    megatron, slime = tmp_path / "Megatron-LM", tmp_path / "slime"
    for place in (megatron, slime):
        place.mkdir()
        git(place, "init", "-q")
        (place / "a.py").write_text("x = 1\n")
        (place / "b.py").write_text("y = 1\n")
        git(place, "add", ".")
        git(place, "commit", "-qm", "one")
    patch = slime / "docker/patch/latest/megatron.patch"
    patch.parent.mkdir(parents=True)
    patch.write_text("--- a/a.py\n+++ b/a.py\n@@ -1 +1 @@\n-x = 1\n+x = 2\n")
    sets = (f"engine.slime_dir={slime}", f"engine.megatron_dir={megatron}")
    context = context_of(T1, *sets)
    saw = ask("software.trees", context)
    assert saw.status == "fail" and "megatron lacks slime's patch: a.py unchanged" in saw.found
    (megatron / "a.py").write_text("x = 2\n")
    (megatron / "b.py").write_text(SWALLOWING)
    saw = ask("software.trees", context)
    assert "megatron: b.py swallows communication errors" in saw.found and "has changed files: b.py" in saw.found
    git(megatron, "checkout", "-q", "b.py")
    saw = ask("software.trees", context)
    assert saw.status == "warn" and "tested at 1dcf0dafa" in saw.found and "tested at bf14dc21f" in saw.found
    found = tree(str(megatron))
    assert found["commit"] == git(megatron, "rev-parse", "HEAD") and found["changed"] == ["a.py"]
    assert tree(str(tmp_path / "absent")) == {"exists": False}


def test_a_checkouts_own_configuration_runs_nothing(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    (tmp_path / "a.py").write_text("x = 1\n")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-qm", "one")
    git(tmp_path, "config", "core.fsmonitor", f"touch {tmp_path}/ran; false")
    tree(str(tmp_path))
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    ("source", "swallows"),
    [
        (SWALLOWING, True),
        (SWALLOWING.replace("pass", "raise"), False),
        (SWALLOWING.replace("dist.all_reduce(tensor)", "import apex"), False),
        (SWALLOWING.replace("Exception", "ImportError"), False),
        (
            "try:\n    dist.barrier()\nexcept RuntimeError as e:  # noqa\n    # never mind\n    pass\n",
            True,
        ),
        ("try:\n    y()\nexcept KeyError:\n    pass\n\ndist.barrier()\n", False),
    ],
)
def test_what_counts_as_swallowing(source: str, swallows: bool) -> None:
    assert swallows_communication_errors(source) is swallows


@pytest.mark.catalogue("F4")
def test_sglang_that_cannot_return_experts(context_of: MakeContext, ask: Ask, site: Path) -> None:
    nothing: dict[str, Any] = {"changed": [], "patched": [], "swallowing": []}
    old = {"version": "0.4.0", "server_args": True, "routed_experts": False, **nothing}
    assert ask("software.sglang", context_of(T1, fleet=one(SGLANG, old))).status == "fail"
    assert ask("software.sglang", context_of("qwen3-8b-grpo", fleet=one(SGLANG, old))).status == "pass", "no experts"
    absent = {"version": None, "server_args": None, "routed_experts": False, **nothing}
    assert ask("software.sglang", context_of(T1, fleet=one(SGLANG, absent))).status == "fail"
    install(site, "sglang", "0.5.12", {"sglang/srt/server_args.py": "enable_return_routed_experts: bool = False\n"})
    assert ask("software.sglang", context_of(T1)).status == "pass"
    assert sys.modules.get("sglang") is None, "nothing of it was imported"


@pytest.mark.catalogue("C7")
def test_files_of_sglang_that_were_really_changed(
    context_of: MakeContext, ask: Ask, site: Path, tmp_path: Path
) -> None:
    said = "enable_return_routed_experts = 1\n"
    install(site, "sglang", "0.5.12", {"sglang/srt/server_args.py": said, "sglang/a.py": "a\n", "sglang/b.py": "b\n"})
    patch = tmp_path / "slime/docker/patch/latest/sglang.patch"
    patch.parent.mkdir(parents=True)
    patch.write_text("--- a/python/sglang/a.py\n+++ b/python/sglang/a.py\n")
    context = context_of(T1, f"engine.slime_dir={tmp_path / 'slime'}")
    assert ask("software.sglang", context).status == "pass"
    (site / "sglang/a.py").write_text("a = 2\n")
    assert ask("software.sglang", context).status == "pass", "that is slime's patch"
    (site / "sglang/b.py").write_text("b = 2\n")
    saw = ask("software.sglang", context)
    assert saw.status == "warn" and saw.found == "sglang 0.5.12 has changed files: sglang/b.py"
    (site / "sglang/b.py").write_text(SWALLOWING)
    saw = ask("software.sglang", context)
    assert saw.status == "fail" and "sglang/b.py swallows communication errors" in saw.found
