"""`t1 watch SOURCE`, and beside it `t1 watch lint`, `t1 watch test` and `t1 watch metrics`."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from t1cli.cli.boundary import guarded
from t1cli.cli.default_command import DefaultCommandGroup
from t1cli.errors import BadInput, ExitCode

if TYPE_CHECKING:
    from t1cli.watch.actions.all import Allowed
    from t1cli.watch.engine import Alert
    from t1cli.watch.session import Session
    from t1cli.watch.sources.open_source import Opened
    from t1cli.watch.sources.source import Row

group = typer.Typer(cls=DefaultCommandGroup, rich_markup_mode=None, help="Apply rules to a run's metrics.")

EPILOG = "Also: `t1 watch lint PACK…`, `t1 watch test FILE…`, `t1 watch metrics`."


def source(  # noqa: PLR0913 - each option of the command line is one parameter
    source: Annotated[str, typer.Argument(help="Run (name, name/attempt_N, path) or a file of metrics.")],
    replay: Annotated[bool, typer.Option(help="Read what is there now and say what would have fired.")] = False,
    json: Annotated[
        bool, typer.Option("--json", help="JSON: one object a line live, exactly one with --replay.")
    ] = False,
    rules: Annotated[list[str], typer.Option(metavar="PACK", help="Rule pack instead of the spec's; may repeat.")] = [],  # noqa: B006
    gpus: Annotated[float, typer.Option(min=0, help="GPUs of the run, for GPU-hours.")] = 0.0,
    set_: Annotated[list[str], typer.Option("--set", metavar="NAME=NUMBER", help="A variable of the rules.")] = [],  # noqa: B006
    interval: Annotated[float, typer.Option(min=0.05, help="Seconds between two looks at a live run.")] = 1.0,
    follow: Annotated[bool, typer.Option(help="Read a mere file on as it grows, until Ctrl-C.")] = False,
    allow_stop: Annotated[bool, typer.Option(help="Let a stop rule end the run after its next save.")] = False,
    allow_pause: Annotated[bool, typer.Option(help="Let a rule hold the next rollout.")] = False,
    grace: Annotated[float | None, typer.Option(min=0, help="Seconds before an allowed stop is asked for.")] = None,
    ack: Annotated[bool, typer.Option("--ack", help="Call off a stop that counts down, end a pause.")] = False,
    webhook: Annotated[
        str,
        typer.Option(envvar="T1_WATCH_WEBHOOK", show_envvar=True, help="Address that warnings and stops are sent to."),
    ] = "",
    wandb_alert: Annotated[
        bool, typer.Option("--wandb-alert", help="Send warnings and stops through W&B, where the run's spec tracks.")
    ] = False,
    baseline: Annotated[
        list[str], typer.Option(metavar="NAME=SOURCE", help="The history that a rule's `baseline: {run: NAME}` means.")
    ] = [],  # noqa: B006
    pin: Annotated[str, typer.Option(metavar="METRIC", help="Keep the save before which this metric was best.")] = "",
    sweep: Annotated[str, typer.Option(metavar="RULE=N,N,…", help="Try thresholds of one rule.")] = "",
    also: Annotated[list[str], typer.Option("--with", metavar="SOURCE", help="With --sweep: another history.")] = [],  # noqa: B006
    control: Annotated[list[str], typer.Option(metavar="SOURCE", help="With --sweep: a healthy history.")] = [],  # noqa: B006
    runs_dir: Annotated[Path | None, typer.Option(help="Where run directories are.")] = None,
) -> int:
    """Apply rules to a run's metrics; exit 1 after a warning, a stop or the run's death, 3 when blind."""
    from t1cli.run.attempts import runs_root
    from t1cli.ui.streams import leave_when_unread
    from t1cli.watch.actions.all import Allowed
    from t1cli.watch.session import Session, history_of
    from t1cli.watch.sources.open_source import open_source

    opened = open_source(source, runs_root(runs_dir), follow=follow)
    others = {name: history_of(open_source(place, runs_root(runs_dir))) for name, place in _named(baseline)}
    session = Session(opened, rule_packs=rules, gpus=gpus or opened.gpus, variables=_variables(set_), other_runs=others)
    if ack:
        return _acknowledge(session)
    if sweep:
        more = [open_source(name, runs_root(runs_dir)) for name in also]
        controls = [open_source(name, runs_root(runs_dir)) for name in control]
        return _sweep(session, sweep, more, controls, as_json=json)
    if not replay:
        leave_when_unread()
    run = _run_json if json else _run_text
    allowed = Allowed(allow_stop or opened.allow_stop, allow_pause, grace, webhook, wandb_alert, pin)
    return run(session, replay, interval, allowed)


def lint(
    packs: Annotated[list[str], typer.Argument(help="Packs: shipped names or files.")],
    json: Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")] = False,
) -> int:
    """Look for rules that cannot work or that misfire on public runs; exit 1 when there are any."""
    from t1cli.ui.json_view import print_object
    from t1cli.ui.watch_view import print_lint
    from t1cli.watch.lint import lint_packs

    found = lint_packs(packs)
    if json:
        print_object({"format_version": 1, "findings": [asdict(finding) for finding in found]})
    else:
        print_lint(found)
    return ExitCode.NO if found else ExitCode.YES


def test(
    files: Annotated[list[Path], typer.Argument(help="Files of rule tests.")],
    json: Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")] = False,
) -> int:
    """Run unit tests of rules; exit 1 when one fails."""
    from t1cli.ui.json_view import print_object
    from t1cli.ui.watch_view import print_rule_tests
    from t1cli.watch.rule_tests import run_rule_tests

    outcomes = [outcome for file in files for outcome in run_rule_tests(file)]
    if json:
        print_object({"format_version": 1, "tests": [asdict(outcome) for outcome in outcomes]})
    else:
        print_rule_tests(outcomes)
    return ExitCode.YES if all(outcome.passed for outcome in outcomes) else ExitCode.NO


def metrics(
    markdown: Annotated[bool, typer.Option("--markdown", help="The reference page instead.")] = False,
) -> None:
    """List the canonical metrics: meaning, population, healthy range, red flags, names by framework."""
    from t1cli.ui.watch_view import print_metrics
    from t1cli.watch.metrics.page import metrics_page

    if markdown:
        typer.echo(metrics_page(), nl=False)
    else:
        print_metrics()


group.command("source", hidden=True, epilog=EPILOG)(guarded(source))
group.command("lint")(guarded(lint))
group.command("test")(guarded(test))
group.command("metrics")(guarded(metrics))


def _variables(given: list[str]) -> dict[str, float]:
    found = {}
    for text in given:
        name, separator, value = text.partition("=")
        try:
            found[name.strip()] = float(value)
        except ValueError as error:
            raise BadInput(f"cannot read {text!r}: expected NAME=NUMBER", where="--set") from error
        if not separator or not name.strip().isidentifier():
            raise BadInput(f"cannot read {text!r}: expected NAME=NUMBER", where="--set")
    return found


def _named(given: list[str]) -> list[tuple[str, str]]:
    pairs = [text.partition("=") for text in given]
    wrong = [text for text, (name, _, place) in zip(given, pairs, strict=True) if not (name and place)]
    if wrong:
        raise BadInput(f"cannot read {', '.join(map(repr, wrong))}: expected NAME=SOURCE", where="--baseline")
    return [(name, place) for name, _, place in pairs]


def _sweep(session: Session, text: str, others: list[Opened], controls: list[Opened], *, as_json: bool) -> int:
    from t1cli.ui.json_view import print_object
    from t1cli.ui.watch_view import print_sweep
    from t1cli.watch.sweep import Sweep, parse_sweep

    rule, thresholds = parse_sweep(text)
    swept = Sweep(rule, thresholds, tuple(session.packs), session.variables, session.gpus)
    outcome = swept.run([session.opened, *others], controls)
    if as_json:
        print_object({"format_version": 1, "rule": rule, "sweep": [asdict(one) for one in outcome]})
    else:
        print_sweep(rule, outcome)
    return ExitCode.YES


def _acknowledge(session: Session) -> int:
    from t1cli.ui.console import answer
    from t1cli.watch.actions.stop import acknowledge

    if session.opened.run is None:
        raise BadInput("--ack goes with a run: a mere file has nothing to call off", where="--ack")
    ended = acknowledge(session.opened.run)
    answer().print(f"called off: {ended}" if ended else "nothing is counting down and nothing is paused")
    return ExitCode.YES


def _run_text(session: Session, replay: bool, interval: float, allowed: Allowed) -> int:
    from t1cli.run.summary import summarize
    from t1cli.ui.console import answer
    from t1cli.ui.status_view import print_outcome
    from t1cli.ui.watch_live import Footer
    from t1cli.ui.watch_view import Lines, print_alert, print_blind, print_result, print_start
    from t1cli.watch.actions.all import Actions

    counting = session.opened.counting
    lines = Lines(session.opened.total_rollouts, counting)
    listener = session.listener
    listener.blind = lambda error, seconds: print_blind(error.message, seconds)
    if replay:
        result = session.replay()
    else:
        actions = Actions(session, allowed)

        def say(sentences: list[str]) -> None:
            for sentence in sentences:
                answer().print(sentence)

        def alarm(raised: Alert) -> None:
            print_alert(raised, counting)
            say(actions.alert(raised))

        print_start(session.opened.name, session.packs, living=session.opened.run is not None)
        with Footer() as footer:

            def tick() -> None:
                say(actions.tick())
                footer.show(session.engine, counting)

            listener.row, listener.alert, listener.tick = lines.row, alarm, tick
            result = session.follow(interval_seconds=interval)
            lines.close()
        say(actions.ended(result))
    print_result(result)
    if session.opened.run is not None and result.run_state == "finished":
        print_outcome(summarize(session.opened.run, trials=True), asked="watch")
    return ExitCode.YES if result.healthy else ExitCode.NO


def _run_json(session: Session, replay: bool, interval: float, allowed: Allowed) -> int:
    from t1cli.ui.json_view import print_object
    from t1cli.watch.actions.all import Actions
    from t1cli.watch.result import FORMAT_VERSION

    if replay:
        result = session.replay()
        print_object(result.to_json())
        return ExitCode.YES if result.healthy else ExitCode.NO
    actions = Actions(session, allowed)

    def tell(kind: str, **fields: object) -> None:
        print_object({"format_version": FORMAT_VERSION, "kind": kind, **fields})

    def did(sentences: list[str]) -> None:
        for sentence in sentences:
            tell("action", text=sentence)

    def row(found: Row) -> None:
        tell("row", step=found.step, values=found.values)

    def alert(raised: Alert) -> None:
        tell("alert", **asdict(raised))
        did(actions.alert(raised))

    session.listener.row = row
    session.listener.alert = alert
    session.listener.blind = lambda error, seconds: tell("blind", reason=error.message, seconds=seconds)
    session.listener.tick = lambda: did(actions.tick())
    result = session.follow(interval_seconds=interval)
    did(actions.ended(result))
    tell("end", **{key: value for key, value in result.to_json().items() if key != "format_version"})
    return ExitCode.YES if result.healthy else ExitCode.NO
