"""What a launch tells slime and what the plugin has are the same: paths, signatures, templates."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable
from typing import Any

import pytest

from t1cli.launch.slime.job import SETUP_HOOK
from t1cli.plugin.campaign import OWN_TEMPLATES
from t1cli.slime.compile import hooks as paths
from t1cli.spec.chat_families import APPEND_ONLY_FAMILIES
from t1cli.terminal.harness.chat.families import dialects_of

# slime v0.3.0's calls of each extension point: positional arguments and keywords.
CALLS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    paths.GENERATE_ROLLOUT: (("args", "rollout_id", "data_source"), ("evaluation",)),
    paths.GENERATE_BY_SLIME: (("args", "rollout_id", "data_source"), ("evaluation",)),
    paths.GENERATE_FULLY_ASYNC: (("args", "rollout_id", "data_source"), ("evaluation",)),
    paths.FILTER_GROUP: (("args", "group"), ()),
    paths.GENERATE: (("args", "sample", "sampling_params"), ("evaluation",)),
    paths.TASK_SOURCE: (("args",), ()),
    paths.START_TRAINER: (("args",), ()),
    paths.EXPLAIN_VARIANCE: (("args", "rollout_id", "rollout_data"), ()),
    paths.MEASURE_MISMATCH: (("args", "rollout_id", "rollout_data"), ()),
    paths.COUNT_FLIPS: (("args", "model", "store_prefix"), ()),
    paths.GROUP_REWARDS: (("args", "samples"), ()),
    paths.RECORD_CORRECTION: (
        ("args",),
        ("pg_loss", "train_log_probs", "rollout_log_probs", "loss_masks", "total_lengths", "response_lengths"),
    ),
    SETUP_HOOK: ((), ()),
    # Megatron's --spec is a module and a name.
    **{".".join(words): (("args", "config", "vp_stage"), ()) for words in paths.SPLIT_DELTANET.values()},
}


def resolve(path: str) -> Callable[..., Any]:
    """As slime does: split at the last dot."""
    module, _, name = path.rpartition(".")
    return getattr(importlib.import_module(module), name)


@pytest.mark.parametrize("path", CALLS, ids=lambda path: path.rpartition(".")[2])
def test_every_hook_resolves_and_takes_slimes_call(path: str) -> None:
    positional, keywords = CALLS[path]
    inspect.signature(resolve(path)).bind(*positional, **dict.fromkeys(keywords))


def test_every_own_path_of_the_arguments_is_tested_here() -> None:
    own = {
        value for value in vars(paths).values() if isinstance(value, str) and value.startswith("t1cli.plugin.hooks.")
    }
    assert own <= set(CALLS)


def test_the_data_source_has_slimes_methods() -> None:
    source = resolve(paths.TASK_SOURCE)
    for name in ("get_samples", "add_samples", "save", "load", "__len__"):
        assert callable(getattr(source, name))


def test_generate_is_a_coroutine_function() -> None:
    assert inspect.iscoroutinefunction(resolve(paths.GENERATE))


def test_every_append_only_family_has_a_template_of_ours_or_a_framing() -> None:
    framed = {family for family in APPEND_ONLY_FAMILIES if dialects_of(family, thinking=False)}
    assert framed | set(OWN_TEMPLATES) == APPEND_ONLY_FAMILIES
    for path in OWN_TEMPLATES.values():
        module, _, name = path.partition(":")
        assert callable(getattr(importlib.import_module(module), name))
