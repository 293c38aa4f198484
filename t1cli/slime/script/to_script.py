"""A spec as a launch script that people can read and run."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import yaml

from t1cli.slime.compile import rows_model, rows_rollout, rows_training
from t1cli.slime.compile.campaign import Compiled, compile_campaign
from t1cli.slime.compile.places import ROLE_FILE, SETTINGS_FILE, unplaced
from t1cli.slime.compile.row import Row
from t1cli.spec.experiment import ExperimentSpec

_MODEL_BLOCKS: Final = ("model.architecture", "model.megatron", "model.train_mtp")
_ARRAYS: Final[Mapping[str, tuple[str, ...]]] = {
    "GPU_ARGS": ("topology", "hardware"),
    "CKPT_ARGS": ("model.checkpoints", "checkpoint"),
    "ROLLOUT_ARGS": ("rollout", "engine.prompts", "seed", "tasks"),
    "EVAL_ARGS": ("evaluation",),
    "ALGORITHM_ARGS": ("algorithm",),
    "TRAINER_ARGS": ("trainer",),
    "SGLANG_ARGS": ("engine",),
    "TRACKING_ARGS": ("tracking",),
}


def script_text(spec: ExperimentSpec, *, source: str) -> str:
    """The script. Raises BadInput for a slime version without a table."""
    compiled = compile_campaign(spec, unplaced(spec))
    groups = _grouped(compiled.argv)
    parts = [_HEAD.format(name=spec.name, source=" ".join(source.split())), *_role_file(compiled), *_settings(spec)]
    parts += [_array(name, arguments) for name, arguments in groups.items()]
    parts.append(_environment(compiled.environment))
    parts.append(_submission(spec, compiled, list(groups)))
    return "\n".join(parts)


_HEAD: Final = """#!/bin/bash
# {name}, written by `t1 convert {source} --to script`.
# It starts no Ray and stops none: run it where RAY_ADDRESS names the cluster's job server.
set -euo pipefail
"""


def _grouped(argv: Sequence[str]) -> dict[str, list[list[str]]]:
    groups: dict[str, list[list[str]]] = {}
    for words in _arguments(argv):
        groups.setdefault(_array_of(words[0]), []).append(words)
    order = ["MODEL_ARGS", *_ARRAYS, "MORE_ARGS"]
    return {name: groups[name] for name in order if name in groups}


def _arguments(argv: Sequence[str]) -> Iterator[list[str]]:
    words: list[str] = []
    for word in argv:
        if word.startswith("--") and words:
            yield words
            words = []
        words.append(word)
    if words:
        yield words


def _rows() -> dict[str, Row]:
    every = (*rows_model.ROWS, *rows_training.ROWS, *rows_rollout.ROWS)
    return {flag: row for row in every for flag in row.flags}


def _array_of(flag: str) -> str:
    row = _rows().get(flag)
    if row is None:
        return "MORE_ARGS"
    key = row.keys[0]
    if key.startswith(_MODEL_BLOCKS):
        return "MODEL_ARGS"
    return next((name for name, blocks in _ARRAYS.items() if key.startswith(blocks)), "MORE_ARGS")


def _array(name: str, arguments: Sequence[Sequence[str]]) -> str:
    lines = "".join(f"   {' '.join(_quoted(word) for word in words)}\n" for words in arguments)
    return f"{name}=(\n{lines})\n"


def _quoted(word: str) -> str:
    return word if word.startswith("--") and word.replace("-", "").isalnum() else shlex.quote(word)


def _role_file(compiled: Compiled) -> Iterator[str]:
    if compiled.role_file is not None:
        yield _here(ROLE_FILE, yaml.safe_dump(json.loads(json.dumps(compiled.role_file)), sort_keys=False))


def _settings(spec: ExperimentSpec) -> Iterator[str]:
    if spec.engine.kind == "slime" and not spec.engine.from_script:
        yield (
            f"# {SETTINGS_FILE} holds the campaign for t1's hooks; `t1 launch` writes it. Without it the hooks stop at "
            f"once.\ntest -f {SETTINGS_FILE}\n"
        )


def _here(path: str, text: str) -> str:
    end = "END_OF_FILE"
    while end in text:
        end += "_"
    return f"cat > {shlex.quote(path)} <<'{end}'\n{text}{end}\n"


def _environment(variables: Mapping[str, str]) -> str:
    content = json.dumps({"env_vars": dict(variables)}, indent=2)
    return f"RUNTIME_ENV_JSON={shlex.quote(content)}\n"


def _submission(spec: ExperimentSpec, compiled: Compiled, names: Sequence[str]) -> str:
    engine: Any = spec.engine
    address = f" --address={shlex.quote(engine.ray_address)}" if engine.ray_address else ""
    entry = f"{engine.slime_dir.rstrip('/')}/{compiled.entry}"
    lines = [
        f"ray job submit{address} \\",
        '   --runtime-env-json="${RUNTIME_ENV_JSON}" \\',
        f"   -- python3 {shlex.quote(entry)} \\",
    ]
    lines += [f'   "${{{name}[@]}}"{" " + chr(92) if name != names[-1] else ""}' for name in names]
    return "\n".join(lines) + "\n"
