"""Finds presets and shipped experiments, in a checkout and in an installed wheel alike."""

from __future__ import annotations

from difflib import get_close_matches
from functools import cache
from pathlib import Path

from t1cli.errors import BadInput
from t1cli.spec.command_line import command_line

EXPERIMENT_FILE = "experiment.yaml"
SCRIPT_ENDINGS = (".sh", ".bash", ".py")
_PACKAGE = Path(__file__).resolve().parent.parent


@cache
def data_root() -> Path:
    """The directory that holds `presets/` and `experiments/`: the wheel's data, or the checkout."""
    for candidate in (_PACKAGE / "_data", _PACKAGE.parent):
        if (candidate / "presets").is_dir():
            return candidate
    raise BadInput(f"presets are missing beside {_PACKAGE}", hint="reinstall t1cli")


def presets_dir() -> Path:
    """Directory of the presets; `model/qwen3-8b` is the file `model/qwen3-8b.yaml` in it."""
    return data_root() / "presets"


def experiments_dir() -> Path:
    """Directory of the shipped experiments, one folder each."""
    return data_root() / "experiments"


def preset_names() -> list[str]:
    """Every preset that an experiment may list, sorted. Rule packs, slime's tables and rubrics are not."""
    root = presets_dir()
    found = (path.relative_to(root).with_suffix("").as_posix() for path in root.glob("*/*.yaml"))
    return sorted(name for name in found if not name.startswith(("watch/", "slime/", "audit/")))


def experiment_names() -> list[str]:
    """Every shipped experiment, sorted."""
    return sorted(path.parent.name for path in experiments_dir().glob(f"*/{EXPERIMENT_FILE}"))


def find_experiment(argument: Path) -> Path:
    """The experiment file behind a path, a directory or the bare name of a shipped experiment.

    Raises BadInput where there is none, and for a launch script, with what makes a spec of it.
    """
    try:
        found = _found(argument)
    except OSError as error:
        raise BadInput(f"no experiment can be at {argument}: {error.strerror}", str(argument), _near("")) from error
    if is_script(found):
        raise BadInput(f"{argument} is a launch script, not an experiment file", str(argument), _from_script(argument))
    return found


def is_script(path: Path) -> bool:
    """Whether a file is a program: by its ending, or by `#!` at its head. A path without a file goes by its ending."""
    if path.suffix in SCRIPT_ENDINGS:
        return True
    try:
        if not path.is_file():
            return False
        with path.open("rb") as file:
            return file.read(2) == b"#!"
    except OSError:  # whoever reads the whole file says why not
        return False


def _from_script(argument: Path) -> str:
    if argument.suffix == ".py":
        return "a Python launcher cannot be read; `t1 init` writes a first spec"
    spec = argument.with_suffix(".yaml").name
    convert = command_line("convert", str(argument), "--output", spec)
    return f"`{convert}` makes a spec of it, which this command takes; `{command_line('plan', str(argument))}` plans it"


def _found(argument: Path) -> Path:
    if argument.is_file():
        return argument
    if argument.is_dir():
        inside = argument / EXPERIMENT_FILE
        if inside.is_file():
            return inside
        raise BadInput(f"{argument} is a directory without {EXPERIMENT_FILE}", str(argument), _near(argument.name))
    shipped = experiments_dir() / argument / EXPERIMENT_FILE
    if len(argument.parts) == 1 and shipped.is_file():
        return shipped
    raise BadInput(f"no experiment at {argument}", str(argument), _near(argument.name))


def shown_path(path: Path) -> str:
    """A path as people read it: below the working directory relative, otherwise as it is."""
    try:
        return path.resolve().relative_to(Path.cwd()).as_posix()
    except ValueError:
        return str(path)


def _near(name: str) -> str:
    names = experiment_names()
    close = get_close_matches(name.removesuffix(".yaml"), names, n=1)
    return f"did you mean `{close[0]}`?" if close else f"shipped experiments: {', '.join(names)}"
