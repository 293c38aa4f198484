"""Composition: later layers win leaf by leaf, lists replace, a changed kind replaces its block."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from t1cli.spec.merge import merge
from t1cli.spec.node import Node, Place
from t1cli.spec.origins import leaves

KEYS = st.sampled_from(["a", "b", "c", "d"])
LEAVES = st.one_of(st.integers(0, 9), st.booleans(), st.none(), st.lists(st.integers(0, 3), max_size=3))
LAYERS = st.recursive(LEAVES, lambda inner: st.dictionaries(KEYS, inner, min_size=1, max_size=3), max_leaves=8).flatmap(
    lambda value: st.dictionaries(KEYS, st.just(value), min_size=1, max_size=3)
)


def tree(value: Any, layer: str) -> Node:
    if isinstance(value, dict):
        content: Any = {key: tree(child, layer) for key, child in value.items()}
    elif isinstance(value, list):
        content = tuple(tree(item, layer) for item in value)
    else:
        content = value
    return Node(content, Place(layer, 1), layer)


def reference(base: Any, over: Any) -> Any:
    """Deep merge in three lines, without kinds and history."""
    if isinstance(base, dict) and isinstance(over, dict):
        return {key: reference(base.get(key), over[key]) if key in over else base[key] for key in base | over}
    return over


@settings(max_examples=40)
@given(LAYERS, LAYERS, LAYERS)
def test_layers_merge_like_nested_mappings(first: Any, second: Any, third: Any) -> None:
    composed = merge(merge(tree(first, "1"), tree(second, "2")).tree, tree(third, "3")).tree
    assert composed.plain() == reference(reference(first, second), third)


@settings(max_examples=40)
@given(LAYERS, LAYERS)
def test_every_leaf_comes_from_the_last_layer_that_gives_it(first: Any, second: Any) -> None:
    composed = merge(tree(first, "1"), tree(second, "2")).tree
    given_by_second = {key for key, _ in leaves(tree(second, "2"))}
    for key, node in leaves(composed):
        assert node.layer == ("2" if key in given_by_second else "1")


@settings(max_examples=40)
@given(LAYERS, LAYERS)
def test_a_replaced_leaf_is_remembered(first: Any, second: Any) -> None:
    older = dict(leaves(tree(first, "1")))
    for key, node in leaves(merge(tree(first, "1"), tree(second, "2")).tree):
        if node.layer == "2" and key in older:
            assert [old.value for old in node.replaced] == [older[key].plain()]


@settings(max_examples=40)
@given(st.lists(st.integers(), max_size=4), st.lists(st.integers(), max_size=4))
def test_lists_replace(first: list[int], second: list[int]) -> None:
    assert merge(tree({"x": first}, "1"), tree({"x": second}, "2")).tree.plain() == {"x": second}


@settings(max_examples=40)
@given(st.dictionaries(KEYS, LEAVES, min_size=1), st.dictionaries(KEYS, LEAVES))
def test_a_changed_kind_replaces_the_block(first: dict[str, Any], second: dict[str, Any]) -> None:
    base = tree({"block": {"kind": "old", **first}}, "1")
    merged = merge(base, tree({"block": {"kind": "new", **second}}, "2"))
    assert merged.tree.plain() == {"block": {"kind": "new", **second}}
    assert set(merged.dropped) == {f"block.{key}" for key in first.keys() - second.keys()}


@settings(max_examples=40)
@given(st.dictionaries(KEYS, LEAVES), st.dictionaries(KEYS, LEAVES))
def test_the_same_kind_merges(first: dict[str, Any], second: dict[str, Any]) -> None:
    merged = merge(tree({"kind": "same", **first}, "1"), tree({"kind": "same", **second}, "2"))
    assert merged.tree.plain() == {"kind": "same", **first, **second}
    assert not merged.dropped
