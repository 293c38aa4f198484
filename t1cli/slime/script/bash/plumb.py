"""Redirections, pipelines and lists."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from t1cli.slime.script.bash.base import Leave
from t1cli.slime.script.bash.call import Calls
from t1cli.slime.script.bash.conditions import Answer, negated
from t1cli.slime.script.bash.pieces import SKIPPED, first_text, span
from t1cli.slime.script.bash.state import State
from t1cli.slime.script.bash.syntax import Source

if TYPE_CHECKING:
    from tree_sitter import Node


class Plumbing(Calls):
    """How commands are joined."""

    def __init__(self, state: State) -> None:
        super().__init__(state)
        self._handlers |= {
            "redirected_statement": self._redirected,
            "pipeline": self._pipeline,
            "list": self._list,
            "negated_command": lambda node, source: negated(self._statement(node.named_children[-1], source)),
        }

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
        if silent and body.type == "command" and first_text(body, source) != "cd":
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
        text, end = span(first, last, source)
        if source.text(start.start_byte, start.end_byte)[:1] in "'\"\\":
            return text
        return self._expander(body, source).heredoc(text, end)

    def _pipeline(self, node: Node, source: Source) -> Answer:
        text, answer = self._stdin, None
        for child in node.named_children:
            if child.type in SKIPPED:
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
            if right.type == "command" and first_text(right, source) in ("exit", "return", "true", ":"):
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

    def _require(self, condition: str, where: str) -> None:
        for name in dict.fromkeys(re.findall(r"\$\{?([A-Za-z_]\w*)", condition)):
            if not self.state.variables.get(name) and name not in self.state.arrays:
                reason = "an environment variable that the script does not set and requires"
                self.state.variables[name] = self.state.unknown(name, where, reason)
