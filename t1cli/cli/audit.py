"""`t1 audit RUN`: what a run trained on, held against what its engine sampled."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from t1cli.errors import BadInput, ExitCode


def command(
    run: Annotated[str, typer.Argument(help="Run: name, name/attempt_N or path.")],
    engine: Annotated[str | None, typer.Option(help="URL of a live engine that scores rows again.")] = None,
    rows: Annotated[int, typer.Option(min=1, help="Rows that the engine scores, spread over the run.")] = 8,
    json: Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")] = False,
    runs_dir: Annotated[Path | None, typer.Option(help="Where run directories are.")] = None,
) -> int:
    """Audit the saved rollouts of a run: relations between turns, drift, routes, log-prob gap, the token ledger."""
    from t1cli.run.attempts import find_run, runs_root
    from t1cli.run.metric_names import LOGPROB_GAP
    from t1cli.run.metrics_reader import read_metrics, series
    from t1cli.run.run_files import saved_spec
    from t1cli.spec.command_line import command_line
    from t1cli.terminal.trajectory.audit_run import audit_run
    from t1cli.ui.audit_view import audit_json, print_audit
    from t1cli.ui.json_view import print_object

    found = find_run(run, runs_root(runs_dir))
    if found.rollouts.is_dir():
        next(found.rollouts.iterdir(), None)  # unlike a glob, this says when the directory may not be read
    files = sorted(found.rollouts.glob("rollout_*.npz"))
    if not files:
        hint = command_line("status", run, runs_dir=runs_dir)
        raise BadInput("no saved rollout in this run", where=str(found.rollouts), hint=hint)
    logged = read_metrics(found.metrics_jsonl)
    names = {name for row in logged for name in row.values if name.startswith("terminal/")}
    block = saved_spec(found).get("rollout")
    if engine:
        _require_unscaled(block, str(found.path))
    audit = audit_run(
        files,
        metrics={name: series(logged, name) for name in names},
        gap=series(logged, LOGPROB_GAP),
        replay=isinstance(block, dict) and bool(block.get("routing_replay")),
        engine=engine,
        scored_rows=rows,
    )
    if json:
        print_object({"format_version": 1, "run": found.name, "attempt": found.attempt, **audit_json(audit)})
    else:
        print_audit(f"{found.name}/attempt_{found.attempt}", audit)
    return ExitCode.NO if audit.faults else ExitCode.YES


def _require_unscaled(rollout: object, where: str) -> None:
    """Raises BadInput for rows whose log-probs are those of a scaled distribution."""
    temperature = rollout.get("temperature", 1.0) if isinstance(rollout, dict) else 1.0
    if temperature != 1.0:
        raise BadInput(
            f"the run sampled at temperature {temperature}, and engines score prompts at 1: log-probs would differ by "
            "that too",
            where=where,
            hint="leave --engine out",
        )
