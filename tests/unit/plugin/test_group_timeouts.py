"""Two real processes over gloo, minutes scaled to seconds: a straggler kills the run without the patch alone (C4).

The NCCL half needs GPUs; here the shape of what is called is recorded.
"""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest

from t1cli.plugin.patches.group_timeouts import lengthen_gloo_group, lengthen_rebuilt_groups, with_default_timeout

DOUBLE = Path(__file__).parents[2] / "contract/slime_double"
OLD_LIMIT_SECONDS, STRAGGLER_SECONDS, NEW_LIMIT_SECONDS = 3.0, 6.0, 150.0

RANK = """
import sys, time
from datetime import timedelta
import torch.distributed as dist
from torch.distributed import distributed_c10d as c10d
from slime.utils import distributed_utils
from t1cli.plugin.patches.group_timeouts import lengthen_gloo_group

rank, file, patched, old, late, new = int(sys.argv[1]), sys.argv[2], sys.argv[3] == "patched", *map(float, sys.argv[4:])
# torch's own default for gloo, 30 minutes, scaled down.
dist.init_process_group("gloo", init_method=f"file://{file}", rank=rank, world_size=2, timeout=timedelta(seconds=150))
scaled = dist.new_group
dist.new_group = lambda *a, timeout=None, **k: scaled(*a, timeout=timeout or timedelta(seconds=old), **k)
distributed_utils.init_gloo_group()
if patched:
    problem = lengthen_gloo_group(distributed_utils, timedelta(seconds=new))
    assert problem == "", problem
if rank == 1:
    time.sleep(late)
dist.barrier(group=distributed_utils.get_gloo_group())
print("survived", flush=True)
import os
os._exit(0)
"""


def run_two_ranks(tmp_path: Path, mode: str) -> list[tuple[int, str]]:
    root = Path(__file__).parents[3]
    environment = {**os.environ, "PYTHONPATH": f"{root}:{DOUBLE}", "OMP_NUM_THREADS": "1"}
    limits = [str(OLD_LIMIT_SECONDS), str(STRAGGLER_SECONDS), str(NEW_LIMIT_SECONDS)]
    ranks = [
        subprocess.Popen(
            [sys.executable, "-c", RANK, str(rank), str(tmp_path / "store"), mode, *limits],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank in range(2)
    ]
    answers = []
    for process in ranks:
        output, _ = process.communicate(timeout=200)
        answers.append((process.returncode, output))
    return answers


@pytest.mark.catalogue("C4")
def test_a_straggler_of_twice_the_old_limit_survives_with_the_patch(tmp_path: Path) -> None:
    for status, output in run_two_ranks(tmp_path, "patched"):
        assert status == 0 and "survived" in output, output


@pytest.mark.catalogue("C4")
def test_and_ends_the_run_without_it(tmp_path: Path) -> None:
    (status, output), _ = run_two_ranks(tmp_path, "as it is")
    assert status != 0 and "survived" not in output
    assert "imed out" in output or "imeout" in output, output


@pytest.mark.catalogue("C4")
def test_rebuilt_groups_are_made_with_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Recorded shape: slime's reload calls the remembered new_group with ranks and backend alone."""
    import torch.distributed as dist
    from slime.utils import reloadable_process_group as module

    calls: list[dict[str, object]] = []
    monkeypatch.setattr(dist, "new_group", lambda *args, **kwargs: calls.append(kwargs) or "group")
    monkeypatch.setattr(dist, "old_new_group", None, raising=False)
    module.monkey_patch_torch_dist()
    group = module.ReloadableProcessGroup("first", [0, 1])
    module.ReloadableProcessGroup.reload_process_groups()
    assert lengthen_rebuilt_groups(module, timedelta(minutes=30)) == ""
    module.ReloadableProcessGroup.reload_process_groups()
    assert calls == [
        {"ranks": [0, 1], "backend": "nccl"},
        {"ranks": [0, 1], "backend": "nccl", "timeout": timedelta(minutes=30)},
    ]
    assert group.group == "group"
    assert dist.old_new_group is module.old_new_group_dict[os.getpid()], "slime asserts that both are the same"


def test_a_limit_that_is_given_stays() -> None:
    calls: list[tuple[tuple[object, ...], dict[str, object]]] = []
    wrapped = with_default_timeout(lambda *a, **k: calls.append((a, k)), timedelta(1), backend="gloo")
    wrapped(backend="gloo", timeout=timedelta(2))
    wrapped([0], timedelta(3), "gloo")
    wrapped(backend="nccl")
    wrapped(ranks=[0], backend="gloo")
    assert [k.get("timeout") for _, k in calls] == [timedelta(2), None, None, timedelta(1)]


def test_code_of_another_shape_is_left_alone() -> None:
    def init_gloo_group(timeout=None):  # a later slime that has an option of its own
        return timeout

    other = SimpleNamespace(init_gloo_group=init_gloo_group, GLOO_GROUP="theirs")
    problem = lengthen_gloo_group(other, timedelta(1))
    assert "(timeout=None) is not" in problem and other.GLOO_GROUP == "theirs"


def test_version_0_3_1_rebuilds_with_its_own_arguments() -> None:
    class ReloadableProcessGroup:
        def __init__(self, group, ranks, creation_args=(), creation_kwargs=None, backend=None): ...

    other = SimpleNamespace(ReloadableProcessGroup=ReloadableProcessGroup)
    assert lengthen_rebuilt_groups(other, timedelta(1)) == ""
