"""The families of checks, one small file each; ALL_CHECKS is their union in the order shown."""

from t1cli.preflight.check import Check
from t1cli.preflight.checks.cluster import CHECKS as CLUSTER
from t1cli.preflight.checks.host import CHECKS as HOST
from t1cli.preflight.checks.sandboxes import CHECKS as SANDBOXES
from t1cli.preflight.checks.software import CHECKS as SOFTWARE
from t1cli.preflight.checks.storage import CHECKS as STORAGE
from t1cli.preflight.checks.tasks import CHECKS as TASKS
from t1cli.preflight.checks.tracking import CHECKS as TRACKING

ALL_CHECKS: tuple[Check, ...] = (*HOST, *SOFTWARE, *CLUSTER, *STORAGE, *SANDBOXES, *TASKS, *TRACKING)
