"""Assignments, declarations and `unset`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from t1cli.slime.script.bash.base import Base
from t1cli.slime.script.bash.conditions import Answer
from t1cli.slime.script.bash.pieces import brief, span
from t1cli.slime.script.bash.state import State, Word, shown, unknown_names
from t1cli.slime.script.bash.syntax import Source

if TYPE_CHECKING:
    from tree_sitter import Node


class Assignments(Base):
    """What a script sets."""

    def __init__(self, state: State) -> None:
        super().__init__(state)
        self._handlers |= {
            "variable_assignment": self._assign,
            "variable_assignments": lambda node, source: self._each(node.children, source),
            "declaration_command": self._declare,
            "unset_command": self._unset,
        }

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
        text, end = span(operator_end, node.end_byte, source)
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
        """What no `--set` can give takes the name of the variable that holds it, and its value when one is given.

        The whole text does, `run-$(date)` and all: giving the variable gives all of it.
        """
        nameless = [one for one in unknown_names(value) if not one.isidentifier()]
        if not nameless:
            return value
        if (given := self.state.given(name)) is not None:
            return given
        reason = self.state.unknowns[nameless[0]].reason
        whole = shown(value) == f"<{nameless[0]}>"
        return self.state.unknown(name, where, reason if whole else f"`{brief([value])}`, which holds {reason}")

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
            self.state.cleared.add(name)
        return True
