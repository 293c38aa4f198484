"""Dotted paths that a campaign's arguments name. slime loads them in the processes that need them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from t1cli.slime.arguments.raises import OWN_FULLY_ASYNC_FUNCTION, OWN_STOCK_FUNCTION

_PLUGIN: Final = "t1cli.plugin.hooks"

GENERATE_ROLLOUT: Final = f"{_PLUGIN}.generate_rollout"
"""A rollout of trials, and every evaluation."""
GENERATE_BY_SLIME: Final = OWN_STOCK_FUNCTION
"""A rollout by slime's stock loop."""
GENERATE_FULLY_ASYNC: Final = OWN_FULLY_ASYNC_FUNCTION
"""A rollout by slime's asynchronous worker, without a barrier."""
GENERATE: Final = f"{_PLUGIN}.generate"
"""One trial, under either of slime's loops."""
FILTER_GROUP: Final = f"{_PLUGIN}.filter_group"
"""Which groups slime's stock loop keeps."""
TASK_SOURCE: Final = f"{_PLUGIN}.TaskSource"
"""Groups of tasks in the campaign's order."""
START_TRAINER: Final = f"{_PLUGIN}.start_trainer"
"""Time limits of trainer processes."""
EXPLAIN_VARIANCE: Final = f"{_PLUGIN}.explain_variance"
"""The critic's fit and the distance to the sampler, logged from every actor rank."""
MEASURE_MISMATCH: Final = f"{_PLUGIN}.measure_mismatch"
"""The distance to the sampler, where there is no critic."""
COUNT_FLIPS: Final = f"{_PLUGIN}.count_flips"
"""Which experts the trainer alone would choose, in the pass that replays the sampler's."""
GROUP_REWARDS: Final = f"{_PLUGIN}.group_rewards"
"""The group baseline over trainable samples only."""
RECORD_CORRECTION: Final = f"{_PLUGIN}.record_correction"
"""Importance weights recorded, the loss unchanged."""
SPLIT_DELTANET: Final[Mapping[tuple[str, str], tuple[str, str]]] = {
    ("slime_plugins.models.qwen3_5", "get_qwen3_5_spec"): (_PLUGIN, "qwen3_5_spec"),
    ("slime_plugins.models.qwen3_next", "get_qwen3_next_spec"): (_PLUGIN, "qwen3_next_spec"),
}
"""slime's `--spec` to ours, which lets slime build the layers and splits GatedDeltaNet over context parallelism."""
