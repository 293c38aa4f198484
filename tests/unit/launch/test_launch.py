"""The order of a launch: gates, question, files, backend, end."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from t1cli.errors import Refused
from t1cli.launch.fake_backend import FakeBackend
from t1cli.launch.launch import launch
from t1cli.launch.proposal import LaunchOptions, Stages, preflight_for
from t1cli.plan.build import build_plan
from t1cli.plan.plan import Finding
from t1cli.preflight.report import CheckResult, PreflightReport
from t1cli.run.directory import RunDirectory
from t1cli.run.lock import lock_holder
from t1cli.run.record import read_record
from t1cli.run.state import RunState, standing
from t1cli.run.summary import summarize
from t1cli.spec.load import LoadedSpec, load_experiment

FAILING = CheckResult("host.memory", ("M8",), "fail", "2 GiB free", "8 GiB", "close something")
CRASHED = CheckResult("tasks.ctrf", ("R1",), "crashed", "KeyError: 'x'", "an answer", "report it")


def run_of(options: LaunchOptions, attempt: int = 1) -> RunDirectory:
    return RunDirectory(options.runs_root / "quickstart" / f"attempt_{attempt}")


def test_a_launch_leaves_a_complete_run_directory(loaded, options, listener, stages) -> None:
    record = launch(loaded, options, listener, stages())
    run = run_of(options)
    assert record == read_record(run)
    assert record.run_dir == str(run.path) and record.attempt == 1 and record.job_id.startswith("pid:")
    for path in (run.spec_yaml, run.origins_json, run.plan_json, run.preflight_json, run.metrics_jsonl):
        assert path.stat().st_size > 0, path
    assert (run.logs / "campaign.log").read_text().count("rollout ") == 4
    assert (options.runs_root / "quickstart/latest").resolve() == run.path
    assert record.session.versions["torch"] and record.session.spec_git.commit
    assert standing(run).state is RunState.FINISHED and lock_holder(run.path.parent) is None


def test_the_saved_spec_loads_by_itself_and_means_the_same(loaded, options, listener, stages) -> None:
    launch(loaded, options, listener, stages())
    again = load_experiment(run_of(options).spec_yaml)
    assert again.spec.rollout == loaded.spec.rollout and again.spec.algorithm == loaded.spec.algorithm
    assert Path(again.spec.tasks.path) == loaded.resolve_path(loaded.spec.tasks.path)
    assert again.resolve_path(again.spec.tasks.path).is_dir()


def test_a_launch_tells_what_is_wrong_in_its_preflight_and_counts_the_rest(loaded, options, monkeypatch) -> None:
    fine = CheckResult("host.cores", (), "pass", "16 cores", "", "")
    checks = (fine, replace(fine, id="host.disk"), replace(fine, status="skipped"), FAILING, CRASHED)

    def run_preflight(loaded, plan, *, runs_dir, progress) -> PreflightReport:
        for check in checks:
            progress(check)
        return PreflightReport("quickstart", "d", checks)

    monkeypatch.setattr("t1cli.preflight.runner.run_preflight", run_preflight)
    lines: list[str] = []
    assert preflight_for(loaded, build_plan(loaded), options.runs_root, lines.append).checks == checks
    first, *wrong, last = lines
    assert "`t1 preflight " in first and [line.split()[1:3] for line in wrong] == [
        ["fail", "host.memory"],
        ["crashed", "tasks.ctrf"],
    ]
    assert last.startswith("preflight  2 passed, 1 failed, 1 crashed, 1 skipped in ")


def test_a_second_launch_gets_the_next_attempt(loaded, options, listener, stages) -> None:
    assert [launch(loaded, options, listener, stages()).attempt for _ in range(3)] == [1, 2, 3]
    assert (options.runs_root / "quickstart/latest").readlink() == Path("attempt_3")


def test_nothing_is_written_when_the_answer_is_no(loaded, options, listener, stages) -> None:
    listener.answers = False
    with pytest.raises(Refused, match="nothing was started"):
        launch(loaded, replace(options, assume_yes=False), listener, stages())
    assert len(listener.asked) == 1 and not options.runs_root.exists()


def test_nothing_is_asked_or_probed_without_a_terminal(loaded, options, listener) -> None:
    def no_probe(*_: object) -> None:
        pytest.fail("preflight ran")

    listener.terminal = False
    stages = Stages(plan=build_plan, preflight=no_probe, backend=lambda spec: FakeBackend())
    with pytest.raises(Refused, match="no terminal") as refused:
        launch(loaded, replace(options, assume_yes=False), listener, stages)
    assert refused.value.diagnostics[0].hint == "`t1 launch SPEC --yes`"
    assert not options.runs_root.exists()


def test_every_refusal_of_a_gate_is_told_at_once_with_the_command_that_accepts_them(
    loaded, options, listener, stages
) -> None:
    with pytest.raises(Refused) as refused:
        launch(loaded, options, listener, stages(None, FAILING, CRASHED))
    first, second = refused.value.diagnostics
    assert "2 GiB free; wanted: 8 GiB" in first.message and "broke" in second.message
    assert "`t1 launch SPEC --accept host.memory --accept tasks.ctrf`" in second.hint
    assert not options.runs_root.exists()


@pytest.mark.parametrize("accepted", [{"host.memory", "tasks.ctrf"}, {"M8", "R1"}])
def test_accepted_ids_are_recorded(loaded, options, listener, stages, accepted) -> None:
    options = replace(options, accepted=frozenset({*accepted, "X9"}))
    record = launch(loaded, options, listener, stages(None, FAILING, CRASHED))
    assert set(record.session.accepted) == accepted


def test_an_oom_verdict_and_an_error_finding_each_refuse(loaded, options, listener, stages) -> None:
    finding = Finding("M3", "error", "EP 2 wastes 40 GiB", "experiment.yaml:9", "set ep: 16")
    made = stages()
    plan = replace(build_plan(loaded), verdict="OOM", findings=(finding,))
    made = replace(made, plan=lambda loaded: plan)
    with pytest.raises(Refused) as refused:
        launch(loaded, options, listener, made)
    assert [d.message.split(":")[0] for d in refused.value.diagnostics] == ["M3", "OOM"]
    assert refused.value.diagnostics[0].where == "experiment.yaml:9"
    assert launch(loaded, replace(options, accepted=frozenset({"M3", "OOM"})), listener, made).session.accepted == (
        "M3",
        "OOM",
    )


@pytest.mark.catalogue("C2")
def test_C2_shared_checkpoint_directories_cannot_be_accepted(
    load: Callable[..., LoadedSpec], options, listener, stages, tmp_path
) -> None:
    shared = tmp_path / "ckpt"
    shared.mkdir()
    (tmp_path / "alias").symlink_to(shared)
    loaded = load(f"checkpoint.actor_dir={shared}", f"checkpoint.critic_dir={tmp_path / 'alias'}/critic")
    with pytest.raises(Refused, match="C2: the critic's checkpoints"):
        launch(loaded, replace(options, accepted=frozenset({"C2"})), listener, stages())


@pytest.mark.catalogue("C2")
def test_C2_directories_are_distinct_by_construction(loaded, options, listener, stages) -> None:
    launch(loaded, options, listener, stages())
    run = run_of(options)
    saved = {role: {p.name for p in (run.path / "checkpoints" / role).iterdir()} for role in ("actor", "critic")}
    assert saved["actor"] == saved["critic"] == {"iter_0000002", "iter_0000004"}


@pytest.mark.catalogue("M9")
def test_M9_inherited_expandable_segments_refuse_an_offloading_slime_campaign(monkeypatch) -> None:
    from t1cli.launch.gates import inherited_allocator

    spec = load_experiment(Path("t1-strategy15k")).spec
    for value, refuses in {"expandable_segments:True": 1, "max_split_size_mb:64": 0}.items():
        assert len(inherited_allocator(spec, {"PYTORCH_CUDA_ALLOC_CONF": value})) == refuses
    embedded = load_experiment(Path("quickstart")).spec
    assert inherited_allocator(embedded, {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}) == ()


def test_a_campaign_that_fails_is_on_record_and_can_be_resumed(loaded, options, listener, stages) -> None:
    def break_at_3(rollout: int) -> None:
        if rollout == 3:
            raise RuntimeError("the sampler died")

    with pytest.raises(RuntimeError):
        launch(loaded, options, listener, stages(FakeBackend(before_rollout=break_at_3)))
    run = run_of(options)
    assert standing(run).state is RunState.FAILED and standing(run).detail == "RuntimeError: the sampler died"
    assert "Traceback" in (run.logs / "campaign.log").read_text()
    assert summarize(run).next_command.startswith("t1 logs")
    record = launch(loaded, replace(options, resume=True), listener, stages())
    assert (record.attempt, record.session.number, record.session.resumed_from_rollout) == (1, 2, 2)
    assert standing(run).state is RunState.FINISHED and summarize(run).rollouts_done == 4


@pytest.mark.catalogue("R4")
def test_R4_a_resumed_session_finds_no_trial_of_the_former_one(loaded, options, listener, stages) -> None:
    def leave_a_trial_and_die(rollout: int) -> None:
        stale = run_of(options).trials / "trial-1"
        stale.mkdir(parents=True)
        (stale / "ctrf.json").write_text("{}")
        run_of(options).carried.mkdir()
        raise RuntimeError

    with pytest.raises(RuntimeError):
        launch(loaded, options, listener, stages(FakeBackend(before_rollout=leave_a_trial_and_die)))
    launch(loaded, replace(options, resume=True), listener, stages())
    run = run_of(options)
    assert not run.trials.exists() and (run.path / "trials.session_1/trial-1/ctrf.json").exists()
    assert run.carried.is_dir(), "what a resume goes on with stays where it is"


def test_resuming_another_campaign_is_refused_with_what_differs(load, options, listener, stages) -> None:
    launch(load(), options, listener, stages())
    changed = load("algorithm.actor_learning_rate=3e-4", "rollout.batch_size=8")
    with pytest.raises(Refused) as refused:
        launch(changed, replace(options, resume=True), listener, stages())
    assert "algorithm.actor_learning_rate 0.0002 → 0.0003" in refused.value.message
    assert "rollout.batch_size 60 → 8" in refused.value.message


def test_resuming_may_extend_the_campaign_and_takes_the_runs_own_spec(load, options, listener, stages) -> None:
    launch(load(), options, listener, stages())
    longer = load("rollout.num_rollouts=6")
    record = launch(longer, replace(options, resume=True), listener, stages())
    assert record.session.resumed_from_rollout == 4 and summarize(run_of(options)).rollouts_done == 6
    own = load_experiment(run_of(options).spec_yaml, ["rollout.num_rollouts=7"])
    assert launch(own, replace(options, resume=True), listener, stages()).session.number == 3
    former = run_of(options).path / "spec.resolved.session_1.yaml"
    assert load_experiment(former).spec.rollout.num_rollouts == 4


def test_a_campaign_that_is_done_is_not_started_again(load, options, listener, stages) -> None:
    launch(load(), options, listener, stages())
    with pytest.raises(Refused, match="4 of 4 rollouts are done: nothing is left") as refused:
        launch(load(), replace(options, resume=True), listener, stages())
    assert "rollout.num_rollouts=8" in str(refused.value.diagnostics[0].hint)
    assert read_record(run_of(options)).session.number == 1


def test_resume_without_an_attempt_is_refused(loaded, options, listener, stages) -> None:
    with pytest.raises(Refused, match="nothing to resume"):
        launch(loaded, replace(options, resume=True), listener, stages())


@pytest.mark.catalogue("C8")
def test_C8_resuming_weights_alone_needs_consent(load, options, listener, stages) -> None:
    weights = load("checkpoint.what=weights")
    launch(weights, options, listener, stages())
    longer = load("checkpoint.what=weights", "rollout.num_rollouts=6")
    with pytest.raises(Refused, match="C8"):
        launch(longer, replace(options, resume=True), listener, stages())
    resumed = launch(longer, replace(options, resume=True, accepted=frozenset({"C8"})), listener, stages())
    assert resumed.session.accepted == ("C8",)


def test_a_start_that_fails_leaves_an_end_and_no_lock(loaded, options, listener, stages) -> None:
    class Broken(FakeBackend):
        def start(self, job):
            raise OSError("no such interpreter")

    with pytest.raises(OSError):
        launch(loaded, options, listener, stages(Broken()))
    run = run_of(options)
    assert standing(run).state is RunState.FAILED and "did not start" in standing(run).detail
    assert lock_holder(run.path.parent) is None


def test_metrics_stay_one_continuous_file_over_a_resume(loaded, options, listener, stages) -> None:
    def break_at_3(rollout: int) -> None:
        if rollout == 3:
            raise RuntimeError

    with pytest.raises(RuntimeError):
        launch(loaded, options, listener, stages(FakeBackend(before_rollout=break_at_3)))
    run = run_of(options)
    with run.metrics_jsonl.open("a") as torn:
        torn.write('{"time": 1, "rollout/step": 3, "rollout/raw_re')
    launch(loaded, replace(options, resume=True), listener, stages())
    lines = [json.loads(line) for line in run.metrics_jsonl.read_text().splitlines()]
    assert [line["rollout/step"] for line in lines if "rollout/step" in line] == [0, 1, 2, 2, 3]
    summary = summarize(run)
    assert (summary.trials, summary.trials_failed) == (64, 4)  # four rollouts, the repeated one counted once
    assert summary.failed_by_cause == {"sandbox_create": 4}
    assert summary.reward.first == pytest.approx(0.15) and summary.sessions == 2
