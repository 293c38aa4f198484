"""What every statement needs: dispatch by node type, words, command substitutions, captured output."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from t1cli.slime.script.bash.conditions import Answer, Conditions
from t1cli.slime.script.bash.pieces import SKIPPED, adjacent, word
from t1cli.slime.script.bash.state import MAX_DEPTH, State, TooMuch, Word
from t1cli.slime.script.bash.syntax import Source
from t1cli.slime.script.bash.words import Expander

if TYPE_CHECKING:
    from tree_sitter import Node

Handler = Callable[["Node", Source], Answer]


class Leave(Exception):
    """`exit`, `return`, `break` or `continue` on its way up."""

    def __init__(self, how: str, code: str = "0") -> None:
        super().__init__(how)
        self.how = how
        self.code = code


class Base:
    """Walks statements; what a kind of statement does is in the classes that extend this one."""

    def __init__(self, state: State) -> None:
        self.state = state
        self._sink: list[str] = []
        self._stdin = ""
        self._conditions = Conditions(state, self._text_of)
        self._handlers: dict[str, Handler] = {"test_command": self._conditions.test}

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
            if node.is_named and node.type not in SKIPPED:
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

    def _expander(self, node: Node, source: Source) -> Expander:
        return Expander(self.state, self._substitute, where=source.where(node), line=source.line(node))

    def _text_of(self, node: Node, source: Source) -> str:
        text, end = word(node, node, source)
        return self._expander(node, source).text(text, end)

    def _fields(self, nodes: Sequence[Node], source: Source) -> list[Word]:
        found: list[Word] = []
        for first, last in adjacent(nodes):
            text, end = word(first, last, source)
            found += self._expander(first, source).fields(text, end)
        return found

    def _substitute(self, text: str, line: int) -> str:
        """Output of a command substitution, evaluated in a copy of the variables."""
        source = Source(text, shown=self.state.shown, first_line=line)
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
