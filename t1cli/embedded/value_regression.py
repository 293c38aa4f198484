"""A value model regressed on the returns of trials that are over, judged on trials that it does not learn from."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from t1cli.embedded.batches import MicroBatch, micro_batches
from t1cli.embedded.explained_variance import ValueFit, value_fit
from t1cli.embedded.gae import gae, rewards_at_end
from t1cli.embedded.model import TinyMoE
from t1cli.terminal.trajectory.row import TrainingRow

_TOKENS = 4096
"""Padded tokens of a forward pass."""


@dataclass(frozen=True)
class Settings:
    """How the critic is fitted."""

    trials: int = 900
    held_out: int = 180
    epochs: int = 8
    batch: int = 60
    """Trials of an optimizer step."""
    learning_rate: float = 5e-4
    gamma: float = 1.0
    patience: int = 8
    """Epochs without improvement after which it ends."""


@dataclass(frozen=True)
class Fit:
    """The best critic on the judging trials."""

    model: TinyMoE
    explained_variance: float
    epoch: int
    """0: no epoch was better than what it began with."""


def fit_values(
    model: TinyMoE,
    rows: Sequence[TrainingRow],
    judges: Sequence[TrainingRow],
    settings: Settings,
    *,
    seed: int,
    say: Callable[[str], None] = lambda line: None,
) -> Fit:
    """Regress on the returns of `rows`; the epoch that explains `judges` best wins, the beginning included.

    Without variance among the judges' returns there is nothing to choose by, and the beginning stays.
    """
    optimizer = torch.optim.Adam(model.parameters(), lr=settings.learning_rate, betas=(0.9, 0.98))
    shuffled, rng = list(rows), random.Random(seed)
    best = Fit(copy.deepcopy(model), explained_variance(model, judges, gamma=settings.gamma), 0)
    for epoch in range(1, settings.epochs + 1):
        rng.shuffle(shuffled)
        for batch in _batches(shuffled, settings.batch):
            optimizer.zero_grad()
            for part in batch:
                _loss(model, part, settings.gamma).backward()  # type: ignore[no-untyped-call]
            optimizer.step()
        explained = explained_variance(model, judges, gamma=settings.gamma)
        say(f"epoch {epoch}: explained variance {explained:.3f} on {len(judges)} trials that are not learned from")
        if explained > best.explained_variance:
            best = Fit(copy.deepcopy(model), explained, epoch)
        elif epoch - best.epoch >= settings.patience:
            break
    return best


def explained_variance(model: TinyMoE, rows: Sequence[TrainingRow], *, gamma: float = 1.0) -> float:
    """Share of the returns' variance over loss tokens that the values explain; nan without variance."""
    explained = fit_on(model, rows, gamma=gamma).explained_variance
    return float("nan") if explained is None else explained


@torch.no_grad()
def fit_on(model: TinyMoE, rows: Sequence[TrainingRow], *, gamma: float = 1.0) -> ValueFit:
    """The model's fit to the returns of these rows, over loss tokens."""
    values, returns, owners = [torch.zeros(0)], [torch.zeros(0)], [torch.zeros(0, dtype=torch.int64)]
    for batch in micro_batches(rows, max_tokens=2 * _TOKENS, replay=False):
        inside = batch.loss_mask.bool()
        values.append(model(batch.inputs).values[inside])
        returns.append(targets(batch, gamma)[inside])
        owners.append(torch.tensor(batch.row_indices).unsqueeze(1).expand_as(inside)[inside])
    return value_fit(*(torch.cat(pieces).numpy() for pieces in (values, returns, owners)))


def targets(batch: MicroBatch, gamma: float) -> Tensor:
    """(B, P): the return at each token of a trial that is over; with gamma 1 the trial's reward everywhere."""
    if gamma == 1.0:
        return batch.rewards.unsqueeze(1).expand_as(batch.loss_mask)
    nothing = torch.zeros_like(batch.loss_mask)
    _, returns = gae(rewards_at_end(batch.rewards, batch.response), nothing, batch.response, gamma=gamma, lam=1.0)
    return returns


def _batches(rows: Sequence[TrainingRow], size: int) -> Iterator[tuple[MicroBatch, ...]]:
    for start in range(0, len(rows), size):
        yield micro_batches(rows[start : start + size], max_tokens=_TOKENS, replay=False)


def _loss(model: TinyMoE, batch: MicroBatch, gamma: float) -> Tensor:
    values: Tensor = model(batch.inputs).values
    return ((values - targets(batch, gamma)).square() * batch.weight).sum()
