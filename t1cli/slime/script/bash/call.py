"""Commands: functions, builtins, pure commands that are computed, and all others, which are only remembered."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from t1cli.slime.script.bash.assign import Assignments
from t1cli.slime.script.bash.base import Leave
from t1cli.slime.script.bash.commands import Call, absolute, formatted, output_of
from t1cli.slime.script.bash.conditions import Answer
from t1cli.slime.script.bash.pieces import REDIRECTS, brief, span
from t1cli.slime.script.bash.sourcing import read_sourced
from t1cli.slime.script.bash.state import Command, State, is_unknown
from t1cli.slime.script.bash.syntax import Source

if TYPE_CHECKING:
    from tree_sitter import Node

_IGNORED_COMMANDS: Final = frozenset({"set", "sleep", "wait", "shopt", "trap", "ulimit", "kill", "pkill", "mkdir"})
_BUILTINS: Final = {
    "cd": "cd",
    "source": "source",
    ".": "source",
    "printf": "printf",
    "exit": "leave",
    "return": "leave",
    "break": "leave",
    "continue": "leave",
    "shift": "shift",
    "eval": "refuse",
}


class Calls(Assignments):
    """What a script calls."""

    def __init__(self, state: State) -> None:
        super().__init__(state)
        self._handlers |= {"command": self._command, "function_definition": self._define}

    def _command(self, node: Node, source: Source) -> Answer:
        where = source.where(node)
        prefixes = [child for child in node.children if child.type == "variable_assignment"]
        rest = [c for c in node.children if c.type not in REDIRECTS and c.type != "variable_assignment"]
        words = self._fields(rest, source)
        environment = {}
        for child in prefixes:
            name, _, _ = source.text(child.start_byte, child.end_byte).partition("=")
            text, end = span(child.start_byte + len(name.encode()) + 1, child.end_byte, source)
            environment[name] = self._expander(child, source).text(text, end)
        if not words:
            return True
        return self._call(Command(tuple(words), environment, where), source)

    def _call(self, command: Command, source: Source) -> Answer:
        name, state = str(command.words[0]), self.state
        if name in state.functions:
            return self._call_function(name, command.words[1:])
        if name.startswith("--"):
            message = f"the line starts with the argument {name}: the line before it lacks its closing backslash"
            state.note(command.where, message)
            return None
        builtin = getattr(self, f"_do_{_BUILTINS[name]}") if name in _BUILTINS else None
        if builtin is not None:
            answer: Answer = builtin(command)
            return answer
        if name in _IGNORED_COMMANDS:
            return True
        printed = output_of(Call(command.words, self._stdin, command.where), state)
        if printed is not None:
            self._sink.append(printed)
            return name != "false"
        state.commands.append(command)
        self._sink.append(state.unknown(f"$({name})", command.where, f"the output of `{brief(command.words)}`"))
        return None

    def _call_function(self, name: str, arguments: Sequence[str]) -> Answer:
        body, source = self.state.functions[name]
        kept, self.state.positional = self.state.positional, tuple(arguments)
        try:
            return self._statement(body, source)
        except Leave as leave:
            if leave.how != "return":
                raise
            return leave.code in ("", "0")
        finally:
            self.state.positional = kept

    def _do_cd(self, command: Command) -> Answer:
        operands = [word for word in command.words[1:] if word != "--"]
        if operands:
            target = str(operands[0])
            self.state.directory = target if is_unknown(target) else absolute(target, self.state)
        return True

    def _do_source(self, command: Command) -> Answer:
        if len(command.words) < 2:
            return None
        text, path = read_sourced(str(command.words[1]), self.state, command.where)
        if text is None:
            return None
        self.state.variables |= dict(command.environment)
        kept, kept_shown = self.state.variables.get("BASH_SOURCE", ""), self.state.shown
        self.state.variables["BASH_SOURCE"], self.state.shown = str(path), path.name
        try:
            with self._deeper():
                self._each((inner := Source(text, shown=path.name)).root.children, inner)
        except Leave as leave:
            if leave.how != "return":
                raise
        finally:
            self.state.variables["BASH_SOURCE"], self.state.shown = kept, kept_shown
        return True

    def _do_printf(self, command: Command) -> Answer:
        words = command.words[1:]
        if len(words) > 2 and words[0] == "-v":
            name, printed = str(words[1]), formatted(words[2:])
            if printed is None:
                given = self.state.given(name)
                printed = self.state.unknown(name, command.where, "the output of printf") if given is None else given
            self.state.put(name, printed)
            return True
        printed = formatted(words)
        self._sink.append("" if printed is None else printed)
        return True

    def _do_leave(self, command: Command) -> Answer:
        raise Leave(str(command.words[0]), str(command.words[1]) if len(command.words) > 1 else "")

    def _do_shift(self, command: Command) -> Answer:
        self.state.positional = self.state.positional[1:]
        return True

    def _do_refuse(self, command: Command) -> Answer:
        self.state.note(command.where, f"`{command.words[0]}` runs text as code and was left out")
        return None

    def _define(self, node: Node, source: Source) -> Answer:
        name, body = node.child_by_field_name("name"), node.child_by_field_name("body")
        if name is not None and body is not None:
            self.state.functions[source.text(name.start_byte, name.end_byte)] = (body, source)
        return True
