"""Binding: which logged name a canonical metric is read from in this run; the first one seen stays."""

from __future__ import annotations

from collections.abc import Mapping

from t1cli.watch.metrics.registry import registry


class Binder:
    """Renames the values of a run to canonical names, and remembers what was read from where."""

    def __init__(self) -> None:
        self.bound: dict[str, str] = {}
        """Canonical name to the logged name it is read from."""
        self.seen: set[str] = set()
        """Every logged name."""
        self._names: dict[str, tuple[str, int] | None] = {}

    def rename(self, values: Mapping[str, float]) -> dict[str, float]:
        """Values under their logged names, and under canonical names where those differ."""
        renamed = dict(values)
        candidates: dict[str, tuple[int, str]] = {}
        for logged in values:
            found = self._canonical(logged)
            if found is not None:
                name, preference = found
                candidates[name] = min(candidates.get(name, (preference, logged)), (preference, logged))
        for name, (_, logged) in candidates.items():
            source = self.bound.setdefault(name, logged)
            if source in values:
                renamed[name] = values[source]
        return renamed

    def _canonical(self, logged: str) -> tuple[str, int] | None:
        if logged not in self._names:
            self._names[logged] = registry().canonical(logged)
            self.seen.add(logged)
        return self._names[logged]
