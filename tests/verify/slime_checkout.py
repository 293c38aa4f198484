"""`make verify-slime SLIME=PATH`: every launch script of a slime checkout read, converted, brought back and planned.

Reads the checkout; executes and writes nothing of it.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from slime_shapes import changed_shapes

from t1cli.plan.build import build_plan
from t1cli.plugin.patches.shape import SHAPES
from t1cli.slime.arguments.spelling import SECRETS
from t1cli.slime.arguments.table import Table, load_table
from t1cli.slime.compile.campaign import compile_campaign
from t1cli.slime.compile.decode import Comparable, comparable
from t1cli.slime.compile.places import unplaced
from t1cli.slime.script.bash.interpret import start
from t1cli.slime.script.bash.state import State, shown
from t1cli.slime.script.bash.syntax import Source
from t1cli.slime.script.convert_file import DEFAULT_VERSION
from t1cli.slime.script.read_script import NotRead, read_script
from t1cli.slime.script.to_script import script_text
from t1cli.slime.script.to_spec import Converted, campaign_name, convert
from t1cli.spec.load import LoadedSpec, load_experiment

LEAST_CONVERTED: Final = 40
LEAST_PLANNED: Final = 40
MOST_ESCAPED_SHARE: Final = 0.15


@dataclass(frozen=True)
class Verdict:
    """What became of one script."""

    name: str
    problem: str = ""
    arguments: int = 0
    escaped: int = 0
    came_back: bool = False
    spec: LoadedSpec | None = None


def main(arguments: list[str]) -> int:
    """Print one line per script and the totals; 0 when every target is met."""
    checkout = Path(arguments[0]).resolve() if arguments else Path()
    if not (checkout / "train.py").is_file():
        print("usage: make verify-slime SLIME=PATH_OF_A_SLIME_CHECKOUT [SLIME_VERSION=0.3.0]", file=sys.stderr)
        return 2
    version = arguments[1] if len(arguments) > 1 else DEFAULT_VERSION
    table = load_table(version)
    broken = [f"{path.name}: {why}" for path in _model_files(checkout) if (why := _model_problem(path, checkout))]
    verdicts = [_verdict(path, checkout, table) for path in _scripts(checkout)]
    for verdict in verdicts:
        print(_line(verdict))
    changed = changed_shapes(checkout)
    print(
        f"places that t1 patches, as recorded: {len(SHAPES) - len(changed)} of {len(SHAPES)} {changed or ''}".rstrip()
    )
    return _totals(verdicts, broken, len(_model_files(checkout))) or int(bool(changed))


def _scripts(checkout: Path) -> list[Path]:
    found = [path for name in ("scripts", "examples") for path in (checkout / name).rglob("*.sh")]
    return sorted(path for path in found if path.parent.name != "models")


def _model_files(checkout: Path) -> list[Path]:
    return sorted((checkout / "scripts" / "models").glob("*.sh"))


def _model_problem(path: Path, checkout: Path) -> str:
    """Why a model file gives no complete argument list."""
    state = State({}, checkout, directory=str(path.parent))
    start(path, state).run(Source(path.read_text(), shown=path.name))
    if not state.arrays.get("MODEL_ARGS"):
        return "no MODEL_ARGS"
    return f"unknown: {', '.join(state.unknowns)}" if state.unknowns else ""


def _verdict(path: Path, checkout: Path, table: Table) -> Verdict:
    name = path.relative_to(checkout).as_posix()
    submission = read_script(path)
    if isinstance(submission, NotRead):
        return Verdict(name, _reasons(submission))
    found = convert(submission, name=campaign_name(path), version=table.version)
    if isinstance(found, NotRead):
        return Verdict(name, _reasons(found))
    original = _public(comparable([shown(word) for word in submission.argv], table))
    loaded = _loaded(found)
    compiled = comparable(compile_campaign(loaded.spec, unplaced(loaded.spec)).argv, table)
    again = _through_script(loaded, table)
    came_back = original == compiled == again
    return Verdict(name, "", found.arguments, len(found.escaped), came_back, loaded)


def _public(arguments: Comparable) -> Comparable:
    secret = {f"--{dest.replace('_', '-')}" for dest in SECRETS}
    return {flag: values for flag, values in arguments.items() if flag not in secret}


def _loaded(found: Converted) -> LoadedSpec:
    with TemporaryDirectory() as directory:
        path = Path(directory) / "experiment.yaml"
        path.write_text(found.text)
        return load_experiment(path)


def _through_script(loaded: LoadedSpec, table: Table) -> Comparable:
    with TemporaryDirectory() as directory:
        path = Path(directory) / "again.sh"
        path.write_text(script_text(loaded.spec, source="experiment.yaml"))
        again = read_script(path)
        return {} if isinstance(again, NotRead) else comparable(again.argv, table)


def _reasons(found: NotRead) -> str:
    return "; ".join(f"{reason.where}: {reason.message}" for reason in found.reasons[-2:])


def _line(verdict: Verdict) -> str:
    if verdict.problem:
        return f"{verdict.name}: not converted. {verdict.problem}"
    back = "come back" if verdict.came_back else "DO NOT COME BACK"
    memory = "a memory table" if _has_memory_table(verdict) else "no memory table"
    return f"{verdict.name}: {verdict.arguments} arguments {back}, {verdict.escaped} in slime_args, {memory}"


def _has_memory_table(verdict: Verdict) -> bool:
    return bool(verdict.spec and build_plan(verdict.spec).memory.roles)


def _totals(verdicts: list[Verdict], broken: list[str], model_files: int) -> int:
    submitting = [verdict for verdict in verdicts if "Python launcher" not in verdict.problem]
    converted = [verdict for verdict in verdicts if not verdict.problem]
    back = sum(verdict.came_back for verdict in converted)
    planned = sum(_has_memory_table(verdict) for verdict in converted)
    arguments, escaped = sum(v.arguments for v in converted), sum(v.escaped for v in converted)
    share = escaped / max(1, arguments)
    print(f"model files read: {model_files - len(broken)} of {model_files} {broken or ''}".rstrip())
    print(f"converted: {len(converted)} of {len(submitting)} scripts that submit a job (target {LEAST_CONVERTED})")
    print(f"argument lists that come back: {back} of {len(converted)}")
    print(f"arguments in slime_args: {escaped} of {arguments}, {share:.1%} (at most {MOST_ESCAPED_SHARE:.0%})")
    print(f"plans with a memory table: {planned} (target {LEAST_PLANNED})")
    met = len(converted) >= LEAST_CONVERTED and planned >= LEAST_PLANNED and share <= MOST_ESCAPED_SHARE
    return 0 if met and back == len(converted) and not broken else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
