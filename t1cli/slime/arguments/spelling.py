"""Flags that slime drops, refuses or ignores whatever their neighbours are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from t1cli.slime.arguments.problem import Problem
from t1cli.slime.arguments.read import Arguments, Given, reading_problem
from t1cli.slime.arguments.table import Table

DROPPED: Final = "slime drops unknown arguments without a word and trains with the default"
NO_EFFECT: Final[Mapping[str, str]] = {
    "eps_clip_c": "no loss of slime reads it",
    "log_probs_max_tokens_per_gpu": "slime sets it and never reads it",
    "eval_min_new_tokens": "no evaluation reads it",
    "eval_max_context_len": "only its own default is computed from it",
    "http_proxy": "no client reads it",
    "min_batch_collection_ratio": "no rollout reads it",
    "use_slime_router": "slime logs that it is ignored",
}
"""Parsed by slime 0.3.0 and without effect (whole-tree search)."""


SECRETS: Final = frozenset({"wandb_key", "sglang_api_key", "sglang_admin_api_key"})
"""Attributes whose values must be on no command line."""


def spelling_problems(arguments: Arguments) -> Iterator[Problem]:
    """One problem per flag that is unknown, misspelt, removed, unreadable, without effect, secret or given twice."""
    for given in arguments.given:
        yield from _of_flag(given, arguments.table)
    yield from _given_twice(arguments)


def _of_flag(given: Given, table: Table) -> Iterator[Problem]:
    flag, argument = given.flag, given.argument
    if not flag:
        yield _stray(given, "the first flag")
    elif flag in table.removed:
        successor = table.removed[flag]
        fix = f"use {successor}" if successor else "leave it out"
        message = f"{flag} was removed before slime {table.version}; {DROPPED}"
        yield Problem("T-removed", "error", flag, message, fix)
    elif flag in table.set_by_slime:
        message = f"slime sets {flag} itself and offers no such argument; {DROPPED}"
        yield Problem("T-unknown", "error", flag, message, "leave it out")
    elif argument is None:
        yield _unknown(given, table)
    elif (problem := reading_problem(given)) is not None:
        yield Problem("T-value", "error", flag, f"{flag} {problem}", f"correct {flag}")
    elif argument.dest in NO_EFFECT:
        message = f"{flag} is parsed and has no effect: {NO_EFFECT[argument.dest]}"
        yield Problem("T-noop", "error", flag, message, "leave it out")
    elif argument.dest in SECRETS:
        message = f"slime logs its whole namespace as config, {flag} included, and Ray shows every job's command"
        yield Problem("T-secret", "error", flag, message, "leave it out; wandb reads WANDB_API_KEY itself")
    if argument is not None and flag and given.surplus:
        yield _stray(given, flag)


def _unknown(given: Given, table: Table) -> Problem:
    near = table.near(given.flag)
    shortened = near is not None and near.startswith(given.flag)
    reason = "an abbreviation, which its parsers do not take" if shortened else "no argument of slime"
    message = f"{given.flag} is {reason} {table.version}; {DROPPED}"
    if shortened:
        message = f"{given.flag} is {reason}; {DROPPED}"
    return Problem("T-unknown", "error", given.flag, message, f"did you mean {near}?" if near else "remove it")


def _stray(given: Given, after: str) -> Problem:
    words = " ".join(given.surplus if given.argument is not None else given.values)
    where = "before" if not given.flag else "after"
    message = f"`{words}` {where} {after} belongs to no argument; {DROPPED}"
    return Problem("T-stray", "error", given.flag or words, message, "remove it, or write the missing flag")


def _given_twice(arguments: Arguments) -> Iterator[Problem]:
    first: dict[str, Given] = {}
    for given in arguments.given:
        argument = given.argument
        if argument is None or argument.action == "append":
            continue
        former = first.setdefault(argument.dest, given)
        if (former.flag, former.values) != (given.flag, given.values):
            message = f"`{' '.join(former.words)}` and later `{' '.join(given.words)}`: the last one wins"
            yield Problem("T-twice", "warning", given.flag, message, "keep one of them")
            first[argument.dest] = given
