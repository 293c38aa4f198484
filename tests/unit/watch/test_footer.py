"""The table under a watched run: only on a terminal, rules that matter first."""

from __future__ import annotations

import io

from rich.console import Console

from t1cli.ui.watch_live import Footer, footer
from t1cli.watch.engine import Engine
from t1cli.watch.packs import pack_from
from t1cli.watch.sources.source import Row


def test_firing_and_pending_rules_are_listed_and_the_rest_counted() -> None:
    rules = [
        {"name": "hot", "metric": "m", "above": 0.5},
        {"name": "warm", "metric": "m", "above": 0.5, "for": 9},
        {"name": "fine", "metric": "m", "below": 0.5},
        {"name": "gone", "metric": "n", "above": 1},
    ]
    engine = Engine([pack_from({"rules": rules}, "test")], variables={})
    for step in range(3):
        engine.observe(Row(step, {"m": 1.0}, 100.0 + step))
    stream = io.StringIO()
    Console(file=stream, width=100).print(footer(engine, now=112.0))
    text = stream.getvalue()
    assert "hot" in text
    assert "3 of 9" in text
    assert "rules: 1 firing, 1 pending, 1 ok, 1 not logged; last rollout 10 s ago" in text
    assert "fine" not in text


def test_without_a_terminal_nothing_is_drawn() -> None:
    engine = Engine([pack_from({"rules": []}, "test")], variables={})
    with Footer() as drawn:
        drawn.show(engine)
    assert drawn._live is None
