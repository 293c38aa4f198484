"""Supervised learning on canonical solutions: cross-entropy on the replies of whole trials, never on observations."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from t1cli.embedded.model import TinyMoE
from t1cli.embedded.template import TinyChatTemplate
from t1cli.terminal.tasks.generator import GeneratedTask

SILENT_SUCCESS = ""
"""What the canonical commands print, and so what their observation is."""


@dataclass(frozen=True)
class Example:
    """One trial in which every reply is the canonical command and the last one says done."""

    tokens: tuple[int, ...]
    reply: tuple[int, ...]
    """Per token: the number of the reply it belongs to, from 1; 0 for what the policy does not say."""


@dataclass(frozen=True)
class Settings:
    """How the supervised start is optimised."""

    batch: int = 64
    micro_batches: int = 2
    learning_rate: float = 3e-3
    warm_up_steps: int = 20
    grad_clip: float = 1.0


@dataclass(frozen=True)
class StepReport:
    """One step on fresh tasks, so every figure is on tasks never seen before."""

    step: int
    tokens: int
    loss: float
    """Mean negative log-likelihood of a reply token."""
    command_probability: float
    """Mean probability that a command is sampled exactly as the canonical one, given the commands before it."""


def example(task: GeneratedTask, template: TinyChatTemplate) -> Example:
    """The trial that solves a task with its canonical commands, one reply each."""
    tokens = list(template.render_task(task.instruction))
    reply = [0] * len(tokens)
    for number, command in enumerate((*task.solution, ""), 1):
        said = template.render_reply(command)
        heard = template.render_observation(SILENT_SUCCESS) if command else ()
        tokens += [*said, *heard]
        reply += [number] * len(said) + [0] * len(heard)
    return Example(tuple(tokens), tuple(reply))


def train_supervised(model: TinyMoE, tasks: Iterable[GeneratedTask], settings: Settings) -> Iterator[StepReport]:
    """One optimizer step per report, on the next `batch` tasks; ends with the tasks. Weights change in place."""
    template = TinyChatTemplate()
    optimizer = torch.optim.Adam(model.parameters(), lr=settings.learning_rate, betas=(0.9, 0.98))
    stream = (example(task, template) for task in tasks)
    for step in itertools.count(1):
        batch = sorted(itertools.islice(stream, settings.batch), key=lambda one: len(one.tokens))
        if not batch:
            return
        for group in optimizer.param_groups:
            group["lr"] = settings.learning_rate * min(1.0, step / settings.warm_up_steps)
        yield _step(model, optimizer, batch, settings, step)


def _step(
    model: TinyMoE, optimizer: torch.optim.Optimizer, batch: Sequence[Example], settings: Settings, step: int
) -> StepReport:
    said = sum(1 for one in batch for number in one.reply if number)
    size = math.ceil(len(batch) / settings.micro_batches)
    loss, probabilities, tokens = 0.0, [], 0
    optimizer.zero_grad()
    for start in range(0, len(batch), size):
        part = batch[start : start + size]
        nll, reply = _negative_log_likelihood(model, part)
        total = (nll * (reply > 0)).sum() / said
        total.backward()  # type: ignore[no-untyped-call]
        loss, tokens = loss + total.item(), tokens + nll.numel()
        probabilities += _command_probabilities(nll.detach(), reply)
    torch.nn.utils.clip_grad_norm_(model.parameters(), settings.grad_clip)
    optimizer.step()
    return StepReport(step, tokens, loss, sum(probabilities) / len(probabilities))


def _negative_log_likelihood(model: TinyMoE, part: Sequence[Example]) -> tuple[Tensor, Tensor]:
    """(B, T - 1) of each next token, and the reply number each next token belongs to."""
    width = max(len(one.tokens) for one in part)
    tokens = torch.tensor([one.tokens + (0,) * (width - len(one.tokens)) for one in part])
    reply = torch.tensor([one.reply + (0,) * (width - len(one.reply)) for one in part])
    logits = model(tokens[:, :-1]).logits
    nll = F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten(), reduction="none").view(len(part), -1)
    return nll, reply[:, 1:]


def _command_probabilities(nll: Tensor, reply: Tensor) -> list[float]:
    sums = torch.zeros(len(nll), int(reply.max()) + 1).scatter_add_(1, reply, nll)
    present = torch.zeros_like(sums).scatter_(1, reply, 1.0).bool()
    present[:, 0] = False
    # The last reply says done, which is learned at once and would hide what the commands are like.
    present.scatter_(1, reply.amax(dim=1, keepdim=True), False)
    probabilities: list[float] = sums[present].neg().exp().tolist()
    return probabilities
