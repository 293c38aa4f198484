"""One role of the trainer: a network, its Adam, and one clipped optimizer step."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from t1cli.embedded.model import TinyMoE
from t1cli.errors import T1Error
from t1cli.spec.algorithm import AdamSpec


@dataclass(frozen=True)
class Role:
    """The actor or the critic with its optimizer."""

    name: str
    model: TinyMoE
    optimizer: torch.optim.AdamW
    grad_clip: float

    def zero_grad(self) -> None:
        self.optimizer.zero_grad(set_to_none=True)

    def step(self) -> float:
        """Clip, update, and return the gradient norm before clipping. Raises T1Error when it is not finite."""
        norm = float(torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.grad_clip))
        if not math.isfinite(norm):
            raise T1Error(
                f"the {self.name}'s gradient norm is {norm}; the weights were left as they were",
                hint="a lower learning rate, and the rows of this rollout in the run's rollouts directory",
            )
        self.optimizer.step()
        return norm

    @property
    def learning_rate(self) -> float:
        return float(self.optimizer.param_groups[0]["lr"])


def make_role(name: str, model: TinyMoE, *, learning_rate: float, adam: AdamSpec) -> Role:
    """Adam with decoupled weight decay on matrices; norms (vectors) are not decayed, as in Megatron."""
    matrices = [parameter for parameter in model.parameters() if parameter.dim() > 1]
    vectors = [parameter for parameter in model.parameters() if parameter.dim() <= 1]
    optimizer = torch.optim.AdamW(
        [{"params": matrices, "weight_decay": adam.weight_decay}, {"params": vectors, "weight_decay": 0.0}],
        lr=learning_rate,
        betas=(adam.beta1, adam.beta2),
        eps=1e-8,
        fused=True,
    )
    return Role(name, model, optimizer, adam.grad_clip)


def optimizer_tensors(role: Role) -> dict[str, Tensor]:
    """Adam's state by `<moment>/<parameter name>`; empty before the first step."""
    tensors: dict[str, Tensor] = {}
    for name, parameter in role.model.named_parameters():
        for key, value in role.optimizer.state.get(parameter, {}).items():
            tensors[f"{key}/{name}"] = value
    return tensors


def load_optimizer_tensors(role: Role, tensors: dict[str, Tensor]) -> None:
    """Put back what `optimizer_tensors` gave."""
    parameters = dict(role.model.named_parameters())
    role.optimizer.state.clear()
    for key, value in tensors.items():
        moment, name = key.split("/", 1)
        role.optimizer.state[parameters[name]][moment] = value.clone()
