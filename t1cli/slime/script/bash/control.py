"""Blocks, conditions and loops."""

from __future__ import annotations

import re
from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from t1cli.slime.script.bash.arithmetic import NotANumber
from t1cli.slime.script.bash.base import Leave
from t1cli.slime.script.bash.conditions import Answer
from t1cli.slime.script.bash.pieces import assigns, brief, is_body, parts
from t1cli.slime.script.bash.plumb import Plumbing
from t1cli.slime.script.bash.state import State, is_unknown
from t1cli.slime.script.bash.syntax import Source

if TYPE_CHECKING:
    from tree_sitter import Node


class Control(Plumbing):
    """What is done when, and how often."""

    def __init__(self, state: State) -> None:
        super().__init__(state)
        self._handlers |= {
            "if_statement": self._if,
            "for_statement": self._for,
            "c_style_for_statement": self._c_for,
            "while_statement": self._while,
            "case_statement": self._case,
            "subshell": self._subshell,
            "compound_statement": self._compound,
        }

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

    def _if(self, node: Node, source: Source) -> Answer:
        conditions, body, others = parts(node, "then")
        answer = self._each(conditions, source)
        text = source.text(conditions[0].start_byte, conditions[-1].end_byte) if conditions else ""
        if answer is None and any(assigns(child) for child in body):
            taken = "the `else` branch was taken" if others else "its body was skipped"
            message = f"`{brief(text.split())}` cannot be decided without running the script; {taken}"
            self.state.note(source.where(node), message)
        if answer:
            return self._guarded(body, text, source)
        for other in others:
            if other.type == "else_clause":
                return self._guarded(list(other.children), text, source)
            if self._chosen(other, source):
                return self._if(other, source)
        return True

    def _chosen(self, clause: Node, source: Source) -> bool:
        conditions, _, _ = parts(clause, "then")
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
        pieces = match.group(1).split(";") if match else []
        if body is None or len(pieces) != 3:
            return None
        start, condition, step = pieces
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
                return self._each([c for c in item.children if is_body(c, item)], source)
        return True

    def _case_matches(self, item: Node, value: str, source: Source) -> bool:
        closing = next((c for c in item.children if c.type == ")"), None)
        last = closing.start_byte if closing is not None else item.end_byte
        patterns = source.text(item.start_byte, last).strip().lstrip("(").split("|")
        expander = self._expander(item, source)
        return any(fnmatchcase(value, expander.text(pattern.strip())) for pattern in patterns)
