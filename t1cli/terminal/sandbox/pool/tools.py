"""The four shell tools that agents of OpenClaw-RL's terminal environment call by name."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from t1cli.terminal.sandbox.pool.refusal import bad_request
from t1cli.terminal.sandbox.sandbox import ExecResult, Sandbox

ERROR = "[TOOL_ERROR]"
"""What an observation of a failed tool begins with; the answer is still a 200."""

_PIECE = 48 * 1024
_LONGEST_SECONDS = 1e7
_SESSION = re.compile(r"[A-Za-z0-9_.-]{1,64}")


@dataclass(frozen=True)
class ToolCall:
    """A tool's name and arguments as the model wrote them."""

    name: str
    arguments: Mapping[str, Any]

    @classmethod
    def of(cls, found: object) -> ToolCall:
        """From a request. Raises PoolRefusal 400."""
        if not isinstance(found, dict) or not isinstance(found.get("name"), str):
            raise bad_request("tool_call must be an object with a name and arguments")
        arguments = found.get("arguments", {})
        if not isinstance(arguments, dict):
            raise bad_request("tool_call.arguments must be an object")
        return cls(found["name"], arguments)


async def run_tool(sandbox: Sandbox, call: ToolCall, *, timeout_seconds: float) -> str:
    """The observation of one tool call. A tool that fails says so in its text; SandboxError is passed on."""
    try:
        return await _TOOLS[call.name](_Tools(sandbox, timeout_seconds), call.arguments)
    except KeyError:
        return f"{ERROR} no tool named {call.name!r}; there are {', '.join(sorted(_TOOLS))}"
    except ValueError as error:
        return f"{ERROR} {call.name}: {error}"


@dataclass(frozen=True)
class _Tools:
    sandbox: Sandbox
    timeout_seconds: float

    async def shell_exec(self, arguments: Mapping[str, Any]) -> str:
        command = _text(arguments, "command")
        if arguments.get("block", True) in (False, "false", "False"):
            return await self._begin(_session(arguments), command)
        limit = arguments.get("timeout")
        seconds = None
        if isinstance(limit, int | float) and not isinstance(limit, bool) and 0 < limit < _LONGEST_SECONDS:
            seconds = float(limit)
        result = await self.sandbox.exec(command, timeout_seconds=seconds or self.timeout_seconds)
        if result.timed_out:
            return f"{ERROR} the command was stopped after {result.seconds:.0f} s\n{result.output}"
        return result.output

    async def shell_view(self, arguments: Mapping[str, Any]) -> str:
        output = await self.sandbox.read_file(f"{_place(arguments)}.out", max_bytes=8 * 1024 * 1024)
        if output is None:
            raise ValueError(f"no session {_session(arguments)!r}")
        return output[-65536:].decode("utf-8", errors="replace")

    async def shell_write_to_process(self, arguments: Mapping[str, Any]) -> str:
        line = {"T1_LINE": _text(arguments, "command")}
        # Opened for both directions: a process that has ended must not hold this up.
        script = f'[ -p "${{T1_ROOT:-}}{_place(arguments)}.in" ] && printf "%s\\n" "$T1_LINE" '
        script += f'1<>"${{T1_ROOT:-}}{_place(arguments)}.in"'
        result = await self.sandbox.exec(script, timeout_seconds=self.timeout_seconds, env=line)
        if result.exit_code:
            raise ValueError(f"no session {_session(arguments)!r} takes input")
        return "written"

    async def shell_write_content_to_file(self, arguments: Mapping[str, Any]) -> str:
        path, content = _text(arguments, "file_path"), arguments.get("content")
        if not isinstance(content, str):
            raise ValueError("content must be a text")
        result = await write_bytes(self.sandbox, path, content.encode(), timeout_seconds=self.timeout_seconds)
        if result.exit_code:
            raise ValueError(result.output.strip() or f"status {result.exit_code}")
        return f"wrote {len(content.encode())} bytes to {path}"

    async def _begin(self, session: str, command: str) -> str:
        place = f"${{T1_ROOT:-}}/tmp/.session-{session}"
        script = (
            f'rm -f "{place}.in"; mkfifo "{place}.in" && '
            f'(exec 0<>"{place}.in" >"{place}.out" 2>&1; eval "$T1_COMMAND") & echo started'
        )
        result = await self.sandbox.exec(script, timeout_seconds=self.timeout_seconds, env={"T1_COMMAND": command})
        if result.exit_code:
            raise ValueError(result.output.strip())
        return f"session {session} runs; read it with shell_view"


async def write_bytes(sandbox: Sandbox, path: str, content: bytes, *, timeout_seconds: float) -> ExecResult:
    """Write a file as the sandbox's own user, in pieces that fit into an argument."""
    # As an agent's command would name it: below the stand-in root of a sandbox without a private one.
    head = 'f=$T1_PATH; case $f in /*) f="${T1_ROOT:-}$f";; esac; '
    script, first = head + 'mkdir -p "$(dirname "$f")" && ', True
    pieces = [content[start : start + _PIECE] for start in range(0, len(content), _PIECE)] or [b""]
    for piece in pieces:
        env = {"T1_PATH": path, "T1_PIECE": base64.b64encode(piece).decode()}
        command = f'{script}printf %s "$T1_PIECE" | base64 -d {">" if first else ">>"} "$f"'
        result = await sandbox.exec(command, timeout_seconds=timeout_seconds, env=env)
        if result.exit_code:
            return result
        script, first = head, False
    return result


def _text(arguments: Mapping[str, Any], name: str) -> str:
    value = arguments.get(name)
    if not isinstance(value, str) or not value or "\0" in value:
        raise ValueError(f"{name} must be a text")
    return value


def _session(arguments: Mapping[str, Any]) -> str:
    session = str(arguments.get("id", "default"))
    if not _SESSION.fullmatch(session):
        raise ValueError("id must be plain letters, digits, dots, dashes, underscores")
    return session


def _place(arguments: Mapping[str, Any]) -> str:
    return f"/tmp/.session-{_session(arguments)}"


_TOOLS = {
    "shell_exec": _Tools.shell_exec,
    "shell_view": _Tools.shell_view,
    "shell_write_to_process": _Tools.shell_write_to_process,
    "shell_write_content_to_file": _Tools.shell_write_content_to_file,
}


def tool_schemas() -> list[dict[str, Any]]:
    """The tools as a chat template is given them."""
    session = {"id": {"type": "string", "description": "Name of the shell session."}}
    command = {"command": {"type": "string", "description": "A shell command, or a line of input."}}
    block = {"block": {"type": "boolean", "description": "Wait for the command; false runs it in the background."}}
    file = {"content": {"type": "string"}, "file_path": {"type": "string"}}
    return [
        _schema("shell_exec", "Run a shell command.", {**session, **command, **block}, ["id", "command"]),
        _schema("shell_view", "Read the output of a background session.", session, ["id"]),
        _schema("shell_write_to_process", "Send a line to a session.", {**session, **command}, ["id", "command"]),
        _schema("shell_write_content_to_file", "Write a file.", file, ["content", "file_path"]),
    ]


def _schema(name: str, description: str, properties: dict[str, Any], required: list[str]) -> dict[str, Any]:
    parameters = {"type": "object", "properties": properties, "required": required}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}
