"""The table read the other way: an argument list as spec keys, and what differs between two lists."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from t1cli.slime.arguments.read import Arguments, Given, Value, read
from t1cli.slime.arguments.table import Table
from t1cli.slime.compile.rows_model import layer_pattern
from t1cli.slime.compile.table import TABLE

Comparable = Mapping[str, tuple[Value, ...]]
"""Canonical flag to its values as slime would read them; the last of two equal flags counts."""


def decoded(arguments: Arguments) -> dict[str, Any]:
    """Dotted spec keys and values of everything that has a field."""
    reading = _reading(arguments)
    found: dict[str, Any] = {}
    for row in TABLE:
        found |= row.decode(reading)
    return {key: value for key, value in found.items() if value is not None}


def comparable(argv: Sequence[str], table: Table) -> Comparable:
    """An argument list without order and spelling: aliases, number forms and layer expressions made equal."""
    arguments = read(argv, table)
    found: dict[str, tuple[Value, ...]] = {}
    for given in arguments.given:
        found[canonical(given)] = _values(given, arguments)
    return found


def canonical(given: Given) -> str:
    """The first spelling of a flag; `--no-x` of a two-way switch counts as `--x`."""
    return given.argument.flag if given.argument is not None else given.flag


def _reading(arguments: Arguments) -> dict[str, Value]:
    found: dict[str, Value] = {}
    for given in arguments.given:
        argument = given.argument
        if argument is None or argument.dest not in arguments.values:
            continue
        two_way = argument.action == "boolean_optional"
        switch = not argument.takes_values and not two_way
        found[argument.flag] = True if switch else arguments.values[argument.dest]
    return found


def _values(given: Given, arguments: Arguments) -> tuple[Value, ...]:
    argument = given.argument
    if argument is None:
        return given.values
    if argument.action == "boolean_optional":
        return (arguments.value(argument.dest),)
    if argument.kind == "expr":
        layers = layer_pattern(given.values[0]) if given.values else None
        return tuple(layers) if layers is not None else given.values
    if argument.action == "append":
        return arguments.many(argument.dest)
    single = read([given.flag, *given.values], arguments.table).values.get(argument.dest)
    if single is None:
        return given.values
    return tuple(single) if isinstance(single, list) and argument.takes_many else (single,)
