"""A check that asks every node the same probe: one result per node, and the outliers named."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from t1cli.preflight.check import Context, Saw, skipped
from t1cli.preflight.fleet import Answer, NoNodes, Probe
from t1cli.preflight.report import NodeResult, Status

ProbeOf = Callable[[Context], "Probe | Saw"]
"""The probe for a spec, or why the question does not arise (a skipped Saw)."""

_WORST: Mapping[Status, int] = {"crashed": 4, "fail": 3, "warn": 2, "pass": 1, "skipped": 0}
_NAMED = 3
"""Outliers that are told one by one; the rest is counted."""


class _Judged:
    """A check whose question and place are those of its judgement."""

    judge: Callable[..., Saw]

    @property
    def __wrapped__(self) -> Callable[..., Saw]:
        """What decides: `inspect.unwrap` finds the judgement's source and module through it."""
        return self.judge

    @property
    def question(self) -> str:
        return self.judge.__doc__ or ""


@dataclass(frozen=True)
class EveryNode(_Judged):
    """Judges each node by its own answer."""

    probe: ProbeOf
    judge: Callable[[Context, Any], Saw]
    """One node's answer to what it means."""

    def __call__(self, context: Context) -> Saw:
        answers = _ask(self.probe, context)
        if isinstance(answers, Saw):
            return answers
        seen = {node: _judged(self.judge, context, answer) for node, answer in answers.items()}
        if not context.fleet.is_cluster and len(seen) == 1:
            return next(iter(seen.values()))
        return together(seen)


@dataclass(frozen=True)
class AcrossNodes(_Judged):
    """Judges the answers of all nodes side by side, for example whether they are equal."""

    probe: ProbeOf
    judge: Callable[[Context, Mapping[str, Any]], Saw]

    def __call__(self, context: Context) -> Saw:
        answers = _ask(self.probe, context)
        if isinstance(answers, Saw):
            return answers
        silent = {node: answer.problem for node, answer in answers.items() if answer.problem}
        if silent:
            node, problem = next(iter(silent.items()))
            return _crashed(f"{len(silent)} of {len(answers)} nodes did not answer: {node}: {problem}")
        return self.judge(context, {node: answer.value for node, answer in answers.items()})


def together(seen: Mapping[str, Saw]) -> Saw:
    """One answer for all nodes: the worst state, with the nodes that stand apart named."""
    nodes = tuple(NodeResult(node, saw.status, saw.found) for node, saw in seen.items())
    worst = max(seen.values(), key=lambda saw: _WORST[saw.status])
    apart = [node for node, saw in seen.items() if saw.status == worst.status]
    if len(apart) == len(seen):
        return replace(worst, found=_alike(seen), nodes=nodes)
    others = [saw.found for saw in seen.values() if saw.status != worst.status]
    rest = f"; the other {len(others)}: {Counter(others).most_common(1)[0][0]}"
    return replace(worst, found=f"{_named(apart, seen)}{rest}", fix=_on(apart, worst.fix), nodes=nodes)


def outliers(values: Mapping[str, Any]) -> dict[str, Any]:
    """The nodes whose value is not the commonest one; empty when all agree."""
    counts = Counter(repr(value) for value in values.values())
    usual = counts.most_common(1)[0][0] if counts else ""
    return {node: value for node, value in values.items() if repr(value) != usual}


def _ask(probe_of: ProbeOf, context: Context) -> Mapping[str, Answer] | Saw:
    probe = probe_of(context)
    if isinstance(probe, Saw):
        return probe
    try:
        answers = context.fleet.ask(probe)
    except NoNodes as why:
        return skipped(str(why))
    return answers or skipped("the cluster has no living node")


def _judged(judge: Callable[[Context, Any], Saw], context: Context, answer: Answer) -> Saw:
    if answer.problem:
        return _crashed(answer.problem)
    return judge(context, answer.value)


def _crashed(problem: str) -> Saw:
    return Saw("crashed", problem, "an answer of every node", "look at that node; `--only` repeats the check")


def _alike(seen: Mapping[str, Saw]) -> str:
    texts = Counter(saw.found for saw in seen.values())
    if len(seen) == 1:
        return f"{next(iter(texts))} on {next(iter(seen))}"
    if len(texts) == 1:
        return f"{next(iter(texts))} on all {len(seen)} nodes"
    return _named(list(seen), seen)


def _named(nodes: Sequence[str], seen: Mapping[str, Saw]) -> str:
    told = "; ".join(f"{node}: {seen[node].found}" for node in nodes[:_NAMED])
    return told + (f"; and {len(nodes) - _NAMED} more nodes" if len(nodes) > _NAMED else "")


def _on(nodes: Sequence[str], fix: str) -> str:
    shown = ", ".join(nodes[:_NAMED]) + (f" and {len(nodes) - _NAMED} more" if len(nodes) > _NAMED else "")
    return f"on {shown}: {fix}" if fix else ""
