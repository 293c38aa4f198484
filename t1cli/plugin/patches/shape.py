"""The shape of slime's code that each patch was written for, and how it is recognised."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Final


@dataclass(frozen=True)
class Shape:
    """One function of slime as a patch expects it."""

    module: str
    name: str
    """Dotted within the module."""
    signature: str
    """`inspect.signature` without annotations."""
    mentions: tuple[str, ...]
    """Texts that its source must hold."""


GLOO_GROUP: Final = Shape(
    "slime.utils.distributed_utils", "init_gloo_group", "()", ("GLOO_GROUP", 'new_group(backend="gloo")')
)
RELOADED_GROUPS: Final = Shape(
    "slime.utils.reloadable_process_group",
    "ReloadableProcessGroup.reload_process_groups",
    "()",
    ("old_new_group_dict", 'old_new_group(ranks=reloadable_group.group_info["ranks"], backend="nccl")'),
)
ENGINE_REQUEST: Final = Shape(
    "slime.backends.sglang_utils.sglang_engine",
    "SGLangEngine._make_request",
    "(self, endpoint, payload=None)",
    ("requests.post(url, json=payload or {})",),
)
REPLAYED_TOPK: Final = Shape(
    "slime.utils.routing_replay",
    "get_routing_replay_compute_topk",
    "(old_compute_topk)",
    (
        "def compute_topk(scores, topk, num_groups=None, group_topk=None)",
        'routing_replay_stage = os.environ["ROUTING_REPLAY_STAGE"]',
        "top_indices = ROUTING_REPLAY.pop_forward()",
        "return probs, top_indices",
    ),
)
SHAPES: Final = (GLOO_GROUP, RELOADED_GROUPS, ENGINE_REQUEST, REPLAYED_TOPK)
"""slime v0.3.0; v0.3.1 keeps all but the second, and rebuilds groups with the arguments they were made with."""


def mismatch(module: ModuleType, shape: Shape) -> str:
    """Why a module's function is not what a patch was written for; empty when it is."""
    found: Any = module
    for part in shape.name.split("."):
        found = getattr(found, part, None)
        if found is None:
            return f"{shape.module} has no {shape.name}"
    signature = plain_signature(found)
    if signature != shape.signature:
        return f"{shape.name}{signature} is not {shape.name}{shape.signature}"
    source = _source(found)
    missing = [text for text in shape.mentions if text not in source]
    return f"{shape.name} no longer has `{missing[0]}`" if missing else ""


def plain_signature(function: Callable[..., Any]) -> str:
    """Names, kinds and defaults; annotations are left out, they change without meaning."""
    parameters = [
        p.replace(annotation=inspect.Parameter.empty) for p in inspect.signature(function).parameters.values()
    ]
    return str(inspect.Signature(parameters))


def _source(function: Callable[..., Any]) -> str:
    try:
        return inspect.getsource(function)
    except (OSError, TypeError):
        return ""
