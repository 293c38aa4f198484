"""One rule for where roles save and for when they would share files."""

from __future__ import annotations

from pathlib import PurePosixPath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from t1cli.spec.checkpoint import CheckpointSpec
from t1cli.spec.role_directories import role_directories, share_files

PARTS = st.lists(st.sampled_from(["a", "b", "..", "."]), min_size=1, max_size=5)
PATHS = st.builds(lambda root, parts: root + "/".join(parts), st.sampled_from(["", "/"]), PARTS)


@pytest.mark.parametrize(
    ("actor", "critic", "expected"),
    [
        (None, None, ("R/actor", "R/critic")),
        ("/ckpt/run", None, ("/ckpt/run", "/ckpt/run_critic")),
        ("/ckpt/run/", None, ("/ckpt/run/", "/ckpt/run_critic")),
        ("/ckpt/run", "/v", ("/ckpt/run", "/v")),
        (None, "/v", ("R/actor", "/v")),
    ],
)
def test_a_critic_without_a_directory_saves_beside_the_actor(
    actor: str | None, critic: str | None, expected: tuple[str, str]
) -> None:
    assert role_directories(CheckpointSpec(actor_dir=actor, critic_dir=critic), "R") == expected


@given(PATHS)
def test_a_directory_beside_the_actors_is_never_inside_it(actor: str) -> None:
    if PurePosixPath(actor) == PurePosixPath("/"):
        return
    assert share_files(actor, actor) and share_files(actor, f"{actor}/critic") and share_files(f"{actor}/critic", actor)
    parts = PurePosixPath(actor).parts
    if ".." not in parts and "." not in actor and len(parts) > 1:
        assert not share_files(*role_directories(CheckpointSpec(actor_dir=actor), "R"))


@given(PATHS, PATHS)
def test_sharing_is_mutual_and_sees_through_dots(one: str, other: str) -> None:
    assert share_files(one, other) == share_files(other, one) == share_files(f"{one}/x/..", other)


def test_a_name_that_begins_alike_is_another_directory() -> None:
    assert not share_files("/ckpt/run", "/ckpt/run_critic")
    assert not share_files("ckpt", "/ckpt"), "where a relative path lies is not known"
