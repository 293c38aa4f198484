"""Statements: what a script assigns and which commands it would run, in order. Nothing is executed."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from t1cli.slime.script.bash.arithmetic import NotANumber
from t1cli.slime.script.bash.commands import Call, absolute, formatted, output_of
from t1cli.slime.script.bash.conditions import Answer, Conditions, negated
from t1cli.slime.script.bash.sourcing import read_sourced
from t1cli.slime.script.bash.state import (
    MAX_DEPTH,
    Command,
    State,
    TooMuch,
    Word,
    is_unknown,
    unknown_names,
)
from t1cli.slime.script.bash.syntax import Source
from t1cli.slime.script.bash.words import End, Expander

if TYPE_CHECKING:
    from tree_sitter import Node

_SKIPPED: Final = frozenset({"comment", "heredoc_body", "heredoc_end", "file_redirect", "herestring_redirect"})
_REDIRECTS: Final = frozenset({"file_redirect", "heredoc_redirect", "herestring_redirect"})
_IGNORED_COMMANDS: Final = frozenset({"set", "sleep", "wait", "shopt", "trap", "ulimit", "kill", "pkill", "mkdir"})


class Leave(Exception):
    """`exit`, `return`, `break` or `continue` on its way up."""

    def __init__(self, how: str, code: str = "0") -> None:
        super().__init__(how)
        self.how = how
        self.code = code


class Interpreter:
    """Walks a script."""

    def __init__(self, state: State) -> None:
        self.state = state
        self._sink: list[str] = []
        self._stdin = ""
        self._conditions = Conditions(state, self._text_of)
        self._handlers: dict[str, Callable[[Node, Source], Answer]] = {
            "variable_assignment": self._assign,
            "variable_assignments": self._block,
            "declaration_command": self._declare,
            "unset_command": self._unset,
            "command": self._command,
            "redirected_statement": self._redirected,
            "pipeline": self._pipeline,
            "list": self._list,
            "if_statement": self._if,
            "for_statement": self._for,
            "c_style_for_statement": self._c_for,
            "while_statement": self._while,
            "case_statement": self._case,
            "function_definition": self._define,
            "subshell": self._subshell,
            "compound_statement": self._compound,
            "negated_command": lambda node, source: negated(self._statement(node.named_children[-1], source)),
            "test_command": self._conditions.test,
        }

    def run(self, source: Source) -> None:
        """Evaluate a whole file. Raises TooMuch."""
        try:
            self._each(source.root.children, source)
        except Leave as leave:
            if leave.how == "exit" and leave.code not in ("0", ""):
                self.state.note(source.shown, "the script ends with an error before its end")

    def _each(self, nodes: Sequence[Node], source: Source) -> Answer:
        answer: Answer = True
        for node in nodes:
            if node.is_named and node.type not in _SKIPPED:
                answer = self._statement(node, source)
        return answer

    def _statement(self, node: Node, source: Source) -> Answer:
        self.state.step()
        handler = self._handlers.get(node.type)
        if handler is None:
            if node.type == "ERROR":
                self.state.note(source.where(node), "this part was not understood and was left out")
            return None
        with self._deeper():
            return handler(node, source)

    @contextmanager
    def _deeper(self) -> Iterator[None]:
        self.state.depth += 1
        if self.state.depth > MAX_DEPTH * 4:
            raise TooMuch("statements nested too deeply")
        try:
            yield
        finally:
            self.state.depth -= 1

    # Words.

    def _expander(self, node: Node, source: Source) -> Expander:
        return Expander(self.state, self._substitute, where=source.where(node), line=source.line(node))

    def _text_of(self, node: Node, source: Source) -> str:
        text, end = _word(node, node, source)
        return self._expander(node, source).text(text, end)

    def _fields(self, nodes: Sequence[Node], source: Source) -> list[Word]:
        found: list[Word] = []
        for first, last in _adjacent(nodes):
            text, end = _word(first, last, source)
            found += self._expander(first, source).fields(text, end)
        return found

    def _substitute(self, text: str, line: int) -> str:
        """Output of a command substitution, evaluated in a copy of the variables."""
        source = Source(text, shown=self._shown, first_line=line)
        state = self.state
        kept = (dict(state.variables), dict(state.arrays), state.directory, state.positional)
        with self._deeper():
            output = self._captured(lambda: self._each(source.root.children, source), "")
        state.variables, state.arrays, state.directory, state.positional = kept
        return state.produce(output.rstrip("\n"))

    def _captured(self, action: Callable[[], object], stdin: str) -> str:
        sink, former = self._sink, self._stdin
        self._sink, self._stdin = [], stdin
        try:
            action()
        except Leave:
            pass
        finally:
            printed, self._sink, self._stdin = "".join(self._sink), sink, former
        return printed

    @property
    def _shown(self) -> str:
        return self.state.variables.get("T1_SHOWN", "script")

    # Assignments.

    def _assign(self, node: Node, source: Source) -> Answer:
        target = node.child_by_field_name("name")
        value = node.child_by_field_name("value")
        assert target is not None
        operator_end = next(c.end_byte for c in node.children if c.type in ("=", "+="))
        appended = source.text(target.end_byte, operator_end).strip() == "+="
        name = source.text(target.start_byte, target.end_byte)
        if value is not None and value.type == "array":
            items = self._fields(value.children[1:-1], source)
            former = self.state.arrays.get(name, []) if appended else []
            self.state.put_array(name, [*former, *items])
            return True
        text, end = _span(operator_end, node.end_byte, source)
        assigned = self._expander(node, source).text(text, end)
        if target.type == "subscript":
            self._assign_item(name, assigned, source.line(node))
            return True
        former_text = self.state.variables.get(name, "") if appended else ""
        self.state.put(name, self._named(name, former_text + assigned, source.where(node)))
        return True

    def _assign_item(self, name: str, value: str, line: int) -> None:
        array, _, index = name.partition("[")
        items = list(self.state.arrays.get(array, []))
        at = int(index[:-1]) if index[:-1].isdigit() else len(items)
        if at <= len(items):
            items[at : at + 1] = [Word(value, line)]
            self.state.put_array(array, items)

    def _named(self, name: str, value: str, where: str) -> str:
        """An unknown output takes the name of the variable that holds it, and its value when one is given."""
        outputs = [n for n in unknown_names(value) if n.startswith("$(")]
        if not outputs:
            return value
        if name in self.state.overrides:
            return self.state.overrides[name]
        if len(outputs) == 1 and value == f"\ue000{outputs[0]}\ue001":
            unknown = self.state.unknowns[outputs[0]]
            return self.state.unknown(name, where, unknown.reason)
        return value

    def _declare(self, node: Node, source: Source) -> Answer:
        exports = source.text(node.children[0].start_byte, node.children[0].end_byte) == "export"
        for child in node.named_children:
            if child.type == "variable_assignment":
                self._assign(child, source)
                target = child.child_by_field_name("name")
            else:
                target = child if child.type == "variable_name" else None
            if target is not None and exports:
                self.state.exported.add(source.text(target.start_byte, target.end_byte))
        return True

    def _unset(self, node: Node, source: Source) -> Answer:
        for child in node.named_children:
            name = source.text(child.start_byte, child.end_byte)
            self.state.variables.pop(name, None)
            self.state.arrays.pop(name, None)
        return True

    # Commands.

    def _command(self, node: Node, source: Source) -> Answer:
        where = source.where(node)
        prefixes = [child for child in node.children if child.type == "variable_assignment"]
        rest = [c for c in node.children if c.type not in _REDIRECTS and c.type != "variable_assignment"]
        words = self._fields(rest, source)
        environment = {}
        for child in prefixes:
            name, _, _ = source.text(child.start_byte, child.end_byte).partition("=")
            text, end = _span(child.start_byte + len(name.encode()) + 1, child.end_byte, source)
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
        self._sink.append(state.unknown(f"$({name})", command.where, f"the output of `{_brief(command.words)}`"))
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
        kept = {name: self.state.variables.get(name, "") for name in ("BASH_SOURCE", "T1_SHOWN")}
        self.state.variables |= {"BASH_SOURCE": str(path), "T1_SHOWN": path.name}
        try:
            with self._deeper():
                self._each((inner := Source(text, shown=path.name)).root.children, inner)
        except Leave as leave:
            if leave.how != "return":
                raise
        finally:
            self.state.variables |= kept
        return True

    def _do_printf(self, command: Command) -> Answer:
        words = command.words[1:]
        if len(words) > 2 and words[0] == "-v":
            printed = formatted(words[2:])
            value = (
                self.state.unknown(str(words[1]), command.where, "the output of printf") if printed is None else printed
            )
            self.state.put(str(words[1]), value)
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

    # Redirections, pipelines and lists.

    def _redirected(self, node: Node, source: Source) -> Answer:
        stdin = self._stdin
        silent = False
        for child in node.children:
            if child.type == "heredoc_redirect":
                stdin = self._heredoc(child, source)
            elif child.type == "herestring_redirect":
                stdin = self._text_of(child.named_children[-1], source) + "\n"
            elif child.type == "file_redirect":
                text = source.text(child.start_byte, child.end_byte).replace(" ", "")
                silent = silent or (text.startswith((">", "1>", "&>")) and not text.startswith((">&", "1>&")))
        body = node.child_by_field_name("body")
        if body is None:
            return True
        kept, self._stdin, sink = self._stdin, stdin, self._sink
        if silent and body.type == "command" and _first_text(body, source) != "cd":
            self._sink = []
        try:
            return self._statement(body, source)
        finally:
            self._stdin, self._sink = kept, sink

    def _heredoc(self, node: Node, source: Source) -> str:
        start = next((c for c in node.children if c.type == "heredoc_start"), None)
        body = next((c for c in node.children if c.type == "heredoc_body"), None)
        stop = next((c for c in node.children if c.type == "heredoc_end"), None)
        if start is None or body is None:
            return ""
        first = source.bytes.find(b"\n", start.end_byte) + 1
        last = stop.start_byte if stop is not None else body.end_byte
        text, end = _span(first, last, source)
        if source.text(start.start_byte, start.end_byte)[:1] in "'\"\\":
            return text
        return self._expander(body, source).heredoc(text, end)

    def _pipeline(self, node: Node, source: Source) -> Answer:
        text, answer = self._stdin, None
        for child in node.named_children:
            if child.type in _SKIPPED:
                continue
            answers: list[Answer] = []
            stage = child
            text = self._captured(lambda: answers.append(self._statement(stage, source)), text)  # noqa: B023
            answer = answers[0] if answers else None
        self._sink.append(text)
        return answer

    def _list(self, node: Node, source: Source) -> Answer:
        left, right = node.named_children[0], node.named_children[-1]
        operator = next(c.type for c in node.children if c.type in ("&&", "||"))
        answer = self._statement(left, source)
        if answer is None:
            if right.type == "command" and _first_text(right, source) in ("exit", "return", "true", ":"):
                return True
            if left.type in ("test_command", "list"):
                why = "a condition that could not be decided"
                self._sink.append(self.state.unknown("$(condition)", source.where(node), f"the output of {why}"))
            return None
        if answer == (operator == "||"):
            return answer
        try:
            return self._statement(right, source)
        except Leave as leave:
            if leave.how != "exit":
                raise
            self._require(source.text(left.start_byte, left.end_byte), source.where(left))
            return True

    # Control flow.

    def _block(self, node: Node, source: Source) -> Answer:
        return self._each(node.children, source)

    def _compound(self, node: Node, source: Source) -> Answer:
        if node.children and node.children[0].type == "((":
            try:
                text = source.text(node.children[0].end_byte, node.children[-1].start_byte)
                return self._expander(node, source).number(text) != 0
            except NotANumber:
                return None
        return self._each(node.children, source)

    def _subshell(self, node: Node, source: Source) -> Answer:
        state = self.state
        kept = (dict(state.variables), dict(state.arrays), state.directory)
        answer = self._each(node.children, source)
        state.variables, state.arrays, state.directory = kept
        return answer

    def _define(self, node: Node, source: Source) -> Answer:
        name, body = node.child_by_field_name("name"), node.child_by_field_name("body")
        if name is not None and body is not None:
            self.state.functions[source.text(name.start_byte, name.end_byte)] = (body, source)
        return True

    def _if(self, node: Node, source: Source) -> Answer:
        conditions, body, others = _parts(node, "then")
        answer = self._each(conditions, source)
        text = source.text(conditions[0].start_byte, conditions[-1].end_byte) if conditions else ""
        if answer is None and any(_assigns(child) for child in body):
            taken = "the `else` branch was taken" if others else "its body was skipped"
            message = f"`{_brief(text.split())}` cannot be decided without running the script; {taken}"
            self.state.note(source.where(node), message)
        if answer:
            return self._guarded(body, text, source)
        for other in others:
            if other.type == "else_clause":
                return self._guarded(list(other.children), text, source)
            deeper = self._if(other, source) if self._chosen(other, source) else None
            if deeper is not None:
                return deeper
        return True

    def _chosen(self, clause: Node, source: Source) -> bool:
        conditions, _, _ = _parts(clause, "then")
        return bool(self._each(conditions, source))

    def _guarded(self, body: Sequence[Node], condition: str, source: Source) -> Answer:
        """A branch; one that ends the script says which variables the script requires."""
        try:
            return self._each(body, source)
        except Leave as leave:
            if leave.how != "exit":
                raise
            self._require(condition, source.where(body[0]) if body else source.shown)
            return True

    def _require(self, condition: str, where: str) -> None:
        for name in dict.fromkeys(re.findall(r"\$\{?([A-Za-z_]\w*)", condition)):
            if not self.state.variables.get(name) and name not in self.state.arrays:
                reason = "an environment variable that the script does not set and requires"
                self.state.variables[name] = self.state.unknown(name, where, reason)

    def _for(self, node: Node, source: Source) -> Answer:
        variable, body = node.child_by_field_name("variable"), node.child_by_field_name("body")
        if variable is None or body is None:
            return None
        name = source.text(variable.start_byte, variable.end_byte)
        words = [c for c in node.children if variable.end_byte < c.start_byte < body.start_byte and c.type not in "in;"]
        items = self._fields([c for c in words if c.type not in ("in", ";")], source)
        if any(is_unknown(item) for item in items):
            self.state.note(source.where(node), "a loop over values that are not known was left out")
            return None
        for item in items:
            self.state.put(name, str(item))
            if not self._iteration(body, source):
                break
        return True

    def _c_for(self, node: Node, source: Source) -> Answer:
        body = node.child_by_field_name("body")
        header = source.text(node.start_byte, body.start_byte if body is not None else node.end_byte)
        match = re.search(r"\(\((.*)\)\)", header, re.S)
        parts = match.group(1).split(";") if match else []
        if body is None or len(parts) != 3:
            return None
        start, condition, step = parts
        expander = self._expander(node, source)
        try:
            expander.number(start)
            while not condition.strip() or expander.number(condition):
                self.state.step()
                if not self._iteration(body, source):
                    break
                expander.number(step)
        except NotANumber as error:
            self.state.note(source.where(node), f"the loop was left out: {error}")
            return None
        return True

    def _while(self, node: Node, source: Source) -> Answer:
        body = node.child_by_field_name("body")
        conditions = [c for c in node.named_children if body is None or c.end_byte <= body.start_byte]
        until = node.children[0].type == "until"
        while body is not None:
            self.state.step()
            answer = self._each(conditions, source)
            if answer is None or answer == until or not self._iteration(body, source):
                return answer
        return None

    def _iteration(self, body: Node, source: Source) -> bool:
        try:
            self._each(body.children, source)
        except Leave as leave:
            if leave.how not in ("break", "continue"):
                raise
            return leave.how == "continue"
        return True

    def _case(self, node: Node, source: Source) -> Answer:
        subject = node.child_by_field_name("value")
        value = self._text_of(subject, source) if subject is not None else ""
        if is_unknown(value):
            self.state.note(source.where(node), "a `case` over a value that is not known was left out")
            return None
        for item in node.named_children:
            if item.type == "case_item" and self._case_matches(item, value, source):
                return self._each([c for c in item.children if _is_body(c, item)], source)
        return True

    def _case_matches(self, item: Node, value: str, source: Source) -> bool:
        from fnmatch import fnmatchcase

        closing = next((c for c in item.children if c.type == ")"), None)
        last = closing.start_byte if closing is not None else item.end_byte
        patterns = source.text(item.start_byte, last).strip().lstrip("(").split("|")
        expander = self._expander(item, source)
        return any(fnmatchcase(value, expander.text(pattern.strip())) for pattern in patterns)


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


def _is_body(child: Node, item: Node) -> bool:
    closing = next((c for c in item.children if c.type == ")"), None)
    return closing is None or child.start_byte >= closing.end_byte


def _parts(node: Node, keyword: str) -> tuple[list[Node], list[Node], list[Node]]:
    """Condition, body and further clauses of an `if` or `elif`."""
    conditions: list[Node] = []
    body: list[Node] = []
    others: list[Node] = []
    seen = False
    for child in node.children:
        if child.type == keyword:
            seen = True
        elif child.type in ("elif_clause", "else_clause"):
            others.append(child)
        elif child.is_named:
            (body if seen else conditions).append(child)
    return conditions, body, others


def _assigns(node: Node) -> bool:
    waiting = [node]
    while waiting:
        current = waiting.pop()
        if current.type == "variable_assignment":
            return True
        waiting += current.children
    return False


def _adjacent(nodes: Sequence[Node]) -> list[tuple[Node, Node]]:
    """First and last node of every word: pieces without a gap between them belong together."""
    found: list[tuple[Node, Node]] = []
    for node in nodes:
        if node.type in _SKIPPED or node.start_byte == node.end_byte:
            continue
        if found and found[-1][1].end_byte == node.start_byte:
            found[-1] = (found[-1][0], node)
        else:
            found.append((node, node))
    return found


def _word(first: Node, last: Node, source: Source) -> tuple[str, End]:
    return _span(first.start_byte, last.end_byte, source)


def _span(start: int, stop: int, source: Source) -> tuple[str, End]:
    """The source between two bytes, and where the substitutions in it end, counted in its characters."""
    text = source.text(start, stop)

    def end(at: int) -> int | None:
        found = source.substitution_end(start + len(text[:at].encode()))
        return None if found is None or found > stop else len(source.text(start, found))

    return text, end


def _first_text(node: Node, source: Source) -> str:
    name = node.child_by_field_name("name")
    return source.text(name.start_byte, name.end_byte) if name is not None else ""


def _brief(words: Sequence[str]) -> str:
    from t1cli.slime.script.bash.state import shown

    text = shown(" ".join(words))
    return text if len(text) <= 60 else text[:57] + "…"


def start(path: Path, state: State) -> Interpreter:
    """An interpreter for a script file; the script's own path is what `BASH_SOURCE` holds."""
    state.variables |= {"BASH_SOURCE": str(path), "T1_SHOWN": path.name}
    return Interpreter(state)
