"""Checkpoint space: bytes per parameter of what is saved, times roles, times what retention keeps."""

from __future__ import annotations

import pytest

T1 = "t1-strategy15k"
PARAMETERS = 122_111_526_912


def test_one_save_holds_bf16_weights_of_both_roles_and_one_more_is_on_disk_while_it_is_written(plan_of):
    disk = plan_of(T1).disk
    assert disk.per_save_gib == pytest.approx(PARAMETERS * 2 * 2 / 2**30)
    assert disk.total_gib == pytest.approx(disk.per_save_gib * (disk.saves_kept + 1))


def test_full_checkpoints_hold_the_main_parameters_and_both_moments_too(plan_of):
    full = plan_of(T1, "checkpoint.what=full").disk
    assert full.per_save_gib == pytest.approx(7 * plan_of(T1).disk.per_save_gib)


def test_no_more_saves_are_kept_than_a_campaign_makes(plan_of):
    kept = plan_of(T1, "checkpoint.retention.keep_latest=100", "rollout.num_rollouts=25").disk.saves_kept
    assert kept == 3
