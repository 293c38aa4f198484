"""The families of checks, one small file each; ALL_CHECKS is their union in the order shown."""

from t1cli.preflight.check import Check
from t1cli.preflight.checks import cluster, host, sandboxes, software, storage, tasks, tracking

ALL_CHECKS: tuple[Check, ...] = (
    *host.CHECKS,
    *software.CHECKS,
    *cluster.CHECKS,
    *storage.CHECKS,
    *sandboxes.CHECKS,
    *tasks.CHECKS,
    *tracking.CHECKS,
)
