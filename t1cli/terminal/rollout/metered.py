"""An engine that counts every token it hands out or loses, independently of what becomes of them."""

from __future__ import annotations

from t1cli.terminal.harness.engine import Engine, Generation, Sampling


class MeteredEngine:
    """Passes everything on to another engine and counts sampled tokens."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.sampled_tokens = 0
        self.weight_versions: set[int] = set()

    async def generate(self, prompt_ids: tuple[int, ...], *, rid: str, sampling: Sampling) -> Generation:
        """One reply, counted."""
        generation = await self._engine.generate(prompt_ids, rid=rid, sampling=sampling)
        self.sampled_tokens += len(generation.sampled_ids)
        self.weight_versions.add(generation.weight_version)
        return generation

    def take_lost(self, rid: str) -> int:
        """Tokens of a reply that nobody received, counted."""
        lost_tokens = self._engine.take_lost(rid)
        self.sampled_tokens += lost_tokens
        return lost_tokens
