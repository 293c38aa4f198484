"""What slime would be started with, for every shipped campaign on it, as a text that a reviewer can read.

`T1_WRITE_GOLDEN=1 pytest tests/cli/test_slime_golden.py` writes the files again.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from t1cli.cli.app import app
from t1cli.launch.resume import family_digest
from t1cli.run.directory import RunDirectory
from t1cli.run.record import RunRecord, describe_session, save_record
from t1cli.run.redaction import Redactor
from t1cli.spec.load import load_experiment
from t1cli.spec.locate import experiment_names

ROOT = Path(__file__).parents[2]
GOLDEN = Path(__file__).parent / "golden" / "slime"
ON_SLIME = [name for name in experiment_names() if load_experiment(Path(name)).spec.engine.kind == "slime"]


def dry_run(name: str, tmp_path: Path, *more: str) -> dict[str, Any]:
    runs = ["--runs-dir", str(tmp_path / "runs")]
    address = ["--set", "engine.ray_address=http://head:8265"]
    result = CliRunner().invoke(app, ["launch", name, "--dry-run", "--json", *runs, *address, *more])
    assert result.exit_code in (0, 1), result.output
    answer: dict[str, Any] = json.loads(result.stdout)
    return answer


def pairs(argv: Sequence[str]) -> Iterator[str]:
    line = ""
    for word in argv:
        if word.startswith("--") and line:
            yield line
            line = ""
        line = f"{line} {word}".strip()
    yield line


def difference(first: Sequence[str], then: Sequence[str]) -> list[str]:
    """An argument list by what it has and lacks against the one after it."""
    ours, theirs = list(pairs(first[1:])), list(pairs(then[1:]))
    return [f"+ {pair}" for pair in ours if pair not in theirs] + [f"- {pair}" for pair in theirs if pair not in ours]


def readable(answer: dict[str, Any], tmp_path: Path) -> str:
    entry, *argv = answer["argv"]
    job = json.loads(json.dumps(answer["job"]))
    same = job["runtime_env"].pop("env_vars") == answer["env"]
    first = answer["evaluation_argv"]
    sections = {
        **({} if first is None else {f"first, entry {first[0]}": difference(first, answer["argv"])}),
        f"entry {entry}": list(pairs(argv)),
        "environment": [f"{name}={value}" for name, value in answer["env"].items()],
        "role file": yaml.safe_dump(answer["role_file"], sort_keys=False).splitlines() if answer["role_file"] else [],
        f"job, its env_vars {'as above' if same else 'DIFFER'}": json.dumps(job, indent=1).splitlines(),
        # Their figures change with the memory model; what refuses must not.
        "refusals": sorted({refusal["id"] for refusal in answer["refusals"]}),
    }
    text = "".join(f"{title}\n" + "".join(f"  {line}\n" for line in lines) for title, lines in sections.items())
    text = text.replace(str(tmp_path), "TMP").replace(str(ROOT), "ROOT")
    return re.sub(r'"t1_digest": "\w+"', '"t1_digest": "DIGEST"', text)


@pytest.mark.catalogue("C5")
@pytest.mark.parametrize("name", ON_SLIME)
def test_what_slime_would_be_started_with(name: str, tmp_path: Path) -> None:
    text = readable(dry_run(name, tmp_path), tmp_path)
    path = GOLDEN / f"{name}.txt"
    if os.environ.get("T1_WRITE_GOLDEN"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    assert text == path.read_text()


def test_there_is_no_golden_file_of_nothing() -> None:
    assert sorted(path.stem for path in GOLDEN.glob("*.txt")) == sorted(ON_SLIME)


@pytest.mark.catalogue("C2")
def test_actor_and_critic_save_apart_and_one_directory_for_both_is_refused(tmp_path: Path) -> None:
    roles = {
        entry["role"]: entry["overrides"] for entry in dry_run("t1-strategy15k", tmp_path)["role_file"]["megatron"]
    }
    assert roles["actor"]["save"] != roles["critic"]["save"]
    assert roles["critic"]["load"] == "/checkpoints/t1-binary-tmax/critic"
    shared = ["--set", "checkpoint.actor_dir=/ckpt/a", "--set", "checkpoint.critic_dir=/ckpt/a/../a"]
    refused = dry_run("t1-strategy15k", tmp_path, *shared)
    assert "C2" in {refusal["id"] for refusal in refused["refusals"]}


@pytest.fixture
def crashed(tmp_path: Path) -> RunDirectory:
    """An attempt of the 122B that has saved rollouts 9 and 19 of both roles."""
    loaded = load_experiment(Path("t1-strategy15k"), ["engine.ray_address=http://other-head:8265"])
    run = RunDirectory(tmp_path / "runs/t1-strategy15k/attempt_1")
    session = describe_session(
        number=1, digest=loaded.digest, spec_path=loaded.path, accepted=(), redactor=Redactor.of_environment()
    )
    record = RunRecord(
        "t1-strategy15k",
        1,
        str(run.path),
        str(loaded.path),
        loaded.digest,
        family_digest(loaded),
        "slime",
        "j",
        (session,),
    )
    run.path.mkdir(parents=True)
    save_record(run, record, Redactor.of_environment())
    for directory in (run.actor_checkpoints, run.critic_checkpoints):
        for rollout in (9, 19):
            place = directory / f"iter_{rollout:07d}"
            place.mkdir(parents=True)
            (place / "weights").write_bytes(b"w")
        (directory / "latest_checkpointed_iteration.txt").write_text("19")
    return run


@pytest.mark.catalogue("C2")
def test_on_resume_each_role_goes_on_in_its_own_directory_and_nothing_is_written(
    crashed: RunDirectory, tmp_path: Path
) -> None:
    before = sorted(tmp_path.rglob("*"))
    answer = dry_run("t1-strategy15k", tmp_path, "--resume")
    assert sorted(tmp_path.rglob("*")) == before
    actor, critic = str(crashed.actor_checkpoints), str(crashed.critic_checkpoints)
    argv = answer["argv"]
    assert (answer["attempt"], answer["run_dir"]) == (1, str(crashed.path))
    assert argv[argv.index("--load") + 1] == argv[argv.index("--save") + 1] == actor
    roles = {entry["role"]: entry["overrides"] for entry in answer["role_file"]["megatron"]}
    assert (roles["actor"]["save"], roles["critic"]["save"], roles["critic"]["load"]) == (actor, critic, critic)
    assert {"--no-load-optim", "--no-load-rng"} <= set(argv), "weights alone were saved"
    # Another head is no other campaign; what weights-only saves lose is said.
    assert {refusal["id"] for refusal in answer["refusals"]} & {"resume", "running", "C8"} == {"C8"}
    shared = ["--set", f"checkpoint.actor_dir={actor}", "--set", f"checkpoint.critic_dir={actor}/../actor"]
    refused = dry_run("t1-strategy15k", tmp_path, "--resume", *shared)
    assert {"C2", "resume"} <= {refusal["id"] for refusal in refused["refusals"]}


def test_no_cluster_is_needed_to_see_what_a_resume_would_run(crashed: RunDirectory, tmp_path: Path) -> None:
    runs = ["--runs-dir", str(tmp_path / "runs")]
    said = CliRunner().invoke(app, ["launch", "t1-strategy15k", "--dry-run", "--resume", "--json", *runs])
    assert said.exit_code == 1, said.output
    answer = json.loads(said.stdout)
    assert str(crashed.actor_checkpoints) in answer["argv"]
    assert "no Ray cluster is named" in " ".join(refusal["message"] for refusal in answer["refusals"])


@pytest.mark.catalogue("C9")
def test_the_asynchronous_campaign_without_the_old_actor_is_refused(tmp_path: Path) -> None:
    assert "--keep-old-actor" in dry_run("t1-strategy15k", tmp_path)["argv"]
    answer = dry_run("t1-strategy15k", tmp_path, "--set", "algorithm.keep_old_actor=false")
    assert "C9" in {refusal["id"] for refusal in answer["refusals"]}
    assert "--keep-old-actor" not in answer["argv"]
