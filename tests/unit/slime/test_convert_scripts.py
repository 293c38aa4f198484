"""Scripts of our own with the constructs of slime's: read as bash would run them, converted, and back."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
from typer.testing import CliRunner

from t1cli.cli.app import app
from t1cli.plan.build import build_plan
from t1cli.slime.arguments.table import load_table
from t1cli.slime.compile.campaign import compile_campaign
from t1cli.slime.compile.decode import comparable
from t1cli.slime.compile.places import unplaced
from t1cli.slime.script.bash.state import shown
from t1cli.slime.script.convert_file import convert_file, load_script
from t1cli.slime.script.read_script import NotRead, Submission, read_script
from t1cli.slime.script.to_script import script_text
from t1cli.slime.script.to_spec import Converted
from t1cli.spec.load import LoadedSpec, load_experiment

CHECKOUT = Path(__file__).parent / "checkout"
READABLE = ["scripts/run-dense.sh", "scripts/run-moe-nodes.sh", "examples/shapes/run-async.sh"]
GIVEN = {"BASE_FOLDER": "/base", "MASTER_ADDR": "10.0.0.1", "NODES": "2"}
STUB = '#!/bin/bash\nif [ "$1 $2" = "job submit" ]; then printf "%s\\0" "$@" > "$SUBMITTED"; fi\n'


def read(path: str, **overrides: str) -> Submission:
    found = read_script(CHECKOUT / path, overrides)
    assert isinstance(found, Submission), found
    return found


def converted(path: str, **overrides: str) -> Converted:
    found = convert_file(CHECKOUT / path, overrides, version="0.3.0")
    assert isinstance(found, Converted), found
    return found


def loaded(text: str, tmp_path: Path) -> LoadedSpec:
    file = tmp_path / "experiment.yaml"
    file.write_text(text)
    return load_experiment(file)


def submitted_by_bash(path: Path, tmp_path: Path, overrides: dict[str, str]) -> list[str]:
    """What `ray job submit` gets when bash really runs the script, with every outside command replaced."""
    stubs, record = tmp_path / "stubs", tmp_path / "submitted"
    stubs.mkdir(exist_ok=True)
    for name in ("ray", "pkill", "sleep", "ssh", "nvidia-smi"):
        (stubs / name).write_text(STUB if name == "ray" else "#!/bin/bash\necho NV18\n")
        (stubs / name).chmod(0o755)
    environment = {"PATH": f"{stubs}:{os.environ['PATH']}", "SUBMITTED": str(record), **overrides}
    subprocess.run(["bash", str(path)], env=environment, capture_output=True, timeout=60, check=False)
    return record.read_text().split("\0")[:-1]


@pytest.mark.parametrize("path", READABLE)
def test_the_arguments_are_those_that_bash_would_submit(path: str, tmp_path: Path) -> None:
    tree = tmp_path / "checkout"
    shutil.copytree(CHECKOUT, tree)
    words = submitted_by_bash(tree / path, tmp_path, GIVEN)
    at = next(index for index, word in enumerate(words) if word.endswith(("train.py", "train_async.py")))
    assert [str(word) for word in read(path, **GIVEN).argv] == words[at + 1 :]


def same_arguments(argv: Sequence[str], other: Sequence[str]) -> bool:
    table = load_table("0.3.0")
    return comparable(argv, table) == comparable(other, table)


def without(argv: Sequence[str], *flags: str) -> list[str]:
    """An argument list without some flags and their values."""
    kept, skipping = [], False
    for word in argv:
        skipping = word in flags if word.startswith("--") else skipping
        if not skipping:
            kept.append(word)
    return kept


@pytest.mark.parametrize("path", [*READABLE, "examples/shapes/run-sft.sh"])
@pytest.mark.parametrize("overrides", [{}, GIVEN], ids=["unset", "set"])
def test_script_to_spec_to_script_keeps_every_argument(path: str, overrides: dict[str, str], tmp_path: Path) -> None:
    original = [shown(word) for word in read(path, **overrides).argv]
    spec = loaded(converted(path, **overrides).text, tmp_path).spec
    assert same_arguments(compile_campaign(spec, unplaced(spec)).argv, original)
    script = tmp_path / "again.sh"
    script.write_text(script_text(spec, source="experiment.yaml"))
    again = read_script(script)
    assert isinstance(again, Submission), again
    assert same_arguments(again.argv, original)
    assert again.environment == {key: shown(value) for key, value in read(path, **overrides).environment.items()}


def test_a_generated_script_is_what_bash_runs(tmp_path: Path) -> None:
    spec = loaded(converted("scripts/run-dense.sh").text, tmp_path).spec
    script = tmp_path / "again.sh"
    script.write_text(script_text(spec, source="experiment.yaml"))
    words = submitted_by_bash(script, tmp_path, {})
    at = next(index for index, word in enumerate(words) if word.endswith("train.py"))
    assert same_arguments(words[at + 1 :], compile_campaign(spec, unplaced(spec)).argv)


def test_a_change_in_the_spec_changes_that_argument_alone(tmp_path: Path) -> None:
    text = converted("scripts/run-dense.sh").text
    file = tmp_path / "experiment.yaml"
    file.write_text(text)
    before = load_experiment(file).spec
    after = load_experiment(file, ["rollout.batch_size=64", "topology.tp=4"]).spec
    old, new = (comparable(compile_campaign(s, unplaced(s)).argv, load_table("0.3.0")) for s in (before, after))
    changed = {flag for flag in old.keys() | new.keys() if old.get(flag) != new.get(flag)}
    assert changed == {"--rollout-batch-size", "--global-batch-size", "--tensor-model-parallel-size"}


def test_the_spec_says_what_it_could_not_know(tmp_path: Path) -> None:
    found = converted("scripts/run-moe-nodes.sh")
    assert [unknown.name for unknown in found.unknowns] == ["BASE_FOLDER", "MASTER_ADDR"]
    assert "# <BASE_FOLDER>" in found.text and "run-moe-nodes.sh:6" in found.text
    plan = build_plan(loaded(found.text, tmp_path))
    assert plan.memory.roles and not plan.accepted_for_launch
    assert {f.id for f in plan.findings if f.severity == "error"} == {"T-blank"}
    assert converted("scripts/run-moe-nodes.sh", **GIVEN).unknowns == ()


def test_fields_hold_what_has_one_and_slime_args_the_rest(tmp_path: Path) -> None:
    dense, moe = converted("scripts/run-dense.sh"), converted("scripts/run-moe-nodes.sh", **GIVEN)
    assert dense.escaped == moe.escaped == ()
    spec = loaded(moe.text, tmp_path).spec
    assert spec.model.architecture.mla is not None and spec.model.architecture.first_k_dense == 1
    assert spec.topology.cp == 2 and spec.rollout.context_tokens == 32768 and spec.topology.train_nodes == 2
    assert spec.rollout.stop_token_ids == (151329, 151336, 151338)
    asynchronous = converted("examples/shapes/run-async.sh")
    assert set(asynchronous.escaped) == {"--my-typo", "--eps-clip-c", "--freeze-params-name-list"}
    spec = loaded(asynchronous.text, tmp_path).spec
    assert spec.rollout.pipeline == "fully_async" and spec.slime_args["my-typo"] == "3"
    assert spec.model.checkpoints.hf == "/data/small-4b" and spec.model.megatron.rotary_base == 5_000_000
    errors = {f.id for f in build_plan(loaded(asynchronous.text, tmp_path)).findings if f.severity == "error"}
    assert {"T-unknown", "T-noop"} <= errors


def test_a_known_model_becomes_its_preset() -> None:
    text = converted("scripts/run-dense.sh").text
    assert "- model/qwen3-4b\n" in text and "hidden_size" not in text


def test_no_secret_reaches_a_spec(tmp_path: Path) -> None:
    secret = "Zq7planted-wandb-key-0123456789"
    found = converted("scripts/run-moe-nodes.sh", WANDB_API_KEY=secret, **GIVEN)
    assert "project: moe" in found.text and secret not in found.text and secret not in repr(found)
    script = tmp_path / "run.sh"
    script.write_text(
        'ray job submit --runtime-env-json=\'{"env_vars": {"E2B_API_KEY": "'
        + secret
        + '", "DB_PASSPHRASE": "'
        + secret
        + '", "MAX_TOKENS": "77"}}\' -- '
        "python3 train.py --hf-checkpoint /m --lr 1e-6 --rollout-batch-size 8 --n-samples-per-prompt 2 "
        "--sglang-api-key " + secret
    )
    quiet = convert_file(script, {}, version="0.3.0")
    assert isinstance(quiet, Converted)
    assert secret not in quiet.text and "MAX_TOKENS: '77'" in quiet.text
    assert all(f"{name} was left out" in quiet.text for name in ("E2B_API_KEY", "DB_PASSPHRASE"))


@pytest.mark.parametrize(
    "path,where,words",
    [
        ("examples/shapes/run-broken.sh", "run-broken.sh:6", "backslash"),
        ("examples/shapes/run-python.sh", "run-python.sh:3", "Python launcher"),
    ],
)
def test_what_cannot_be_read_names_its_line(path: str, where: str, words: str) -> None:
    found = convert_file(CHECKOUT / path, {}, version="0.3.0")
    assert isinstance(found, NotRead)
    assert any(note.where == where and (words in note.message) for note in found.reasons) or words in str(found)


def test_an_unknown_number_is_asked_for(tmp_path: Path) -> None:
    script = tmp_path / "run.sh"
    script.write_text(
        "ray job submit -- python3 train.py --hf-checkpoint /m --lr 1e-6 \\\n"
        "  --n-samples-per-prompt 2 --rollout-batch-size ${BATCH}\n"
    )
    found = convert_file(script, {}, version="0.3.0")
    assert isinstance(found, NotRead) and "--set BATCH=" in found.reasons[0].message
    assert isinstance(convert_file(script, {"BATCH": "8"}, version="0.3.0"), Converted)


def test_slimes_default_learning_rate_is_said_and_not_added(tmp_path: Path) -> None:
    script = tmp_path / "run.sh"
    words = "--hf-checkpoint /m --rollout-batch-size 8 --n-samples-per-prompt 2 --global-batch-size 16 --colocate"
    script.write_text(f"ray job submit -- python3 train.py {words}\n")
    found = convert_file(script, {}, version="0.3.0")
    assert isinstance(found, Converted) and "slime's default of --lr" in found.text and "--lr" in found.left_out
    spec = loaded(found.text, tmp_path).spec
    assert spec.algorithm.actor_learning_rate == 1e-6
    assert "--lr" not in compile_campaign(spec, unplaced(spec)).argv


def test_a_script_is_planned_directly() -> None:
    path = CHECKOUT / "scripts/run-moe-nodes.sh"
    plan = build_plan(load_script(path, ["BASE_FOLDER=/base", "MASTER_ADDR=10.0.0.1", "topology.cp=4"]))
    assert plan.memory.roles["actor"].stages and plan.name == "moe-nodes"
    assert all("experiment.yaml" not in finding.where for finding in plan.findings)


def run(*words: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, list(words))
    return result.exit_code, result.stdout, result.stderr


def test_the_command_writes_a_spec_or_says_which_lines_need_help(tmp_path: Path) -> None:
    output = tmp_path / "spec.yaml"
    code, _, aside = run("convert", str(CHECKOUT / "scripts/run-dense.sh"), "--output", str(output))
    assert code == 0 and "0 of them in slime_args" in aside
    assert load_experiment(output).spec.name == "dense"
    code, script, _ = run("convert", str(output), "--to", "script")
    assert code == 0 and script.startswith("#!/bin/bash") and "MODEL_ARGS=(" in script
    code, _, aside = run("convert", str(CHECKOUT / "examples/shapes/run-broken.sh"))
    assert code == 1 and "run-broken.sh:6" in aside
    mine = tmp_path / "mine.yaml"
    mine.write_text("name: mine\n")
    assert run("convert", str(CHECKOUT / "scripts/run-dense.sh"), "--output", str(mine))[0] == 2
    assert mine.read_text() == "name: mine\n"
    code, text, _ = run("convert", str(CHECKOUT / "scripts/run-moe-nodes.sh"), "--json", "--set", "BASE_FOLDER=/b")
    assert code == 0 and '"placeholders"' in text and "MASTER_ADDR" in text
    assert run("convert", str(CHECKOUT / "scripts/run-dense.sh"), "--set", "nonsense")[0] == 2
    assert run("convert", str(tmp_path / "absent.sh"))[0] == 2
    assert run("convert", str(CHECKOUT / "scripts/run-dense.sh"), "--slime-version", "9.9.9")[0] == 2
    code, _, aside = run("plan", str(CHECKOUT / "examples/shapes/run-broken.sh"))
    assert code == 1 and "run-broken.sh:6" in aside


def test_a_script_is_planned_without_sandboxes() -> None:
    code, text, aside = run("plan", str(CHECKOUT / "scripts/run-dense.sh"))
    assert code in (0, 1), aside
    assert "peak GiB" in text and "actor 0" in text
    # Its rollout is slime's own, on prompts.
    assert "sandboxes" not in text
