"""Which relation a model's chat template leaves between the ids of one turn and those of the next, and whether trials
go by it at all: where the family's framing is known, turns are appended and history is never rendered again.

The template is foreign text, so it is rendered in a sandbox of jinja2 inside a process with limits on time and memory.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from typing import Any, Literal

Relation = Literal["strict", "normalized", "split", "unknown"]
"""`strict`: a later prompt begins with the earlier one and its reply. `normalized`: but for white space. `split`: the
history is rewritten, and a trial becomes several rows. `unknown`: it could not be rendered."""

CPU_SECONDS, MEMORY_BYTES, WALL_SECONDS = 5, 1 << 30, 15.0

_PROGRAM = r"""
import json, sys
from jinja2.sandbox import ImmutableSandboxedEnvironment

def stop(message):
    raise ValueError(message)

asked = json.load(sys.stdin)
options = {"trim_blocks": True, "lstrip_blocks": True, "extensions": ["jinja2.ext.loopcontrols"]}
environment = ImmutableSandboxedEnvironment(**options)
environment.globals["raise_exception"] = stop
environment.globals["strftime_now"] = lambda form: "2026-01-01"
environment.filters["tojson"] = lambda value, **_: json.dumps(value, ensure_ascii=False)
template = environment.from_string(asked["template"])
common = {"bos_token": "<bos>", "eos_token": "<eos>", "tools": None, "enable_thinking": False}
out = [template.render(messages=messages, add_generation_prompt=True, **common) for messages in asked["histories"]]
print(json.dumps(out))
"""
_APPENDS = r"""
import json, sys
from pathlib import Path
from t1cli.errors import Refused
from t1cli.terminal.harness.chat.load import checkpoint_renderer
from t1cli.terminal.harness.chat.renderer import AppendOnlyRenderer

asked = json.load(sys.stdin)
try:
    renderer = checkpoint_renderer(Path(asked["directory"]), family=asked["family"], thinking=asked["thinking"])
except Refused as refusal:
    print(json.dumps({"appends": "", "why": refusal.message}))
else:
    appends = renderer.dialect.name if isinstance(renderer, AppendOnlyRenderer) else ""
    print(json.dumps({"appends": appends, "why": renderer.remark}))
"""
_REPLY = "<think>\nlook first\n</think>\n\n<command>ls</command>"


def relation_of(template: str) -> tuple[Relation, str]:
    """The relation, and what it was seen by."""
    first = [{"role": "user", "content": "task"}]
    later = [*first, {"role": "assistant", "content": _REPLY}, {"role": "user", "content": "observation"}]
    rendered, problem = _rendered(template, [first, later])
    if problem:
        return "unknown", problem
    return compare(rendered[0], rendered[1])


def appended_as(directory: str, *, family: str, thinking: bool) -> dict[str, str]:
    """`appends`: the framing by which trials on this checkpoint append their turns, empty for none; then `why`."""
    found, problem = _answer(_APPENDS, {"directory": directory, "family": family, "thinking": thinking})
    return {"appends": "", "why": problem} if problem else found


def compare(before: str, after: str) -> tuple[Relation, str]:
    """Whether a later prompt continues an earlier prompt and the reply to it."""
    if after.startswith(before + _REPLY):
        return "strict", "a later prompt begins with the earlier one and its reply"
    if "".join(after.split()).startswith("".join((before + _REPLY).split())):
        return "normalized", "only white space between turns differs"
    if after.startswith(before):
        return "split", "the reply is rewritten once it is history (thinking is cut out, or text is stripped)"
    return "split", "the earlier prompt itself is rewritten"


def _rendered(template: str, histories: list[Any]) -> tuple[list[str], str]:
    found, problem = _answer(_PROGRAM, {"template": template, "histories": histories})
    return ([], problem) if problem else (found, "")


def _answer(program: str, question: dict[str, Any]) -> tuple[Any, str]:
    """What a program prints as JSON within the limits, or why it did not."""
    try:
        done = subprocess.run(
            [sys.executable, "-c", program],
            input=json.dumps(question),
            capture_output=True,
            text=True,
            timeout=WALL_SECONDS,
            preexec_fn=_limited,
            check=False,
        )
        found = json.loads(done.stdout) if done.returncode == 0 else None
    except (subprocess.TimeoutExpired, ValueError):
        return None, f"no answer within {CPU_SECONDS} s of processor time"
    if found is None:
        last = done.stderr.strip().splitlines()
        return None, last[-1][:200] if last else f"ended with {done.returncode}"
    return found, ""


def _limited() -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
