"""The families of checks, one small file each; ALL_CHECKS is their union in the order shown."""

from t1cli.preflight.check import Check
from t1cli.preflight.checks.checkpoints import CHECKS as CHECKPOINTS
from t1cli.preflight.checks.cluster import CHECKS as CLUSTER
from t1cli.preflight.checks.containers import CHECKS as CONTAINERS
from t1cli.preflight.checks.gpus import CHECKS as GPUS
from t1cli.preflight.checks.group_filter import CHECKS as GROUP_FILTER
from t1cli.preflight.checks.harness import CHECKS as HARNESS
from t1cli.preflight.checks.host import CHECKS as HOST
from t1cli.preflight.checks.inference import CHECKS as INFERENCE
from t1cli.preflight.checks.memory import CHECKS as MEMORY
from t1cli.preflight.checks.model import CHECKS as MODEL
from t1cli.preflight.checks.network import CHECKS as NETWORK
from t1cli.preflight.checks.pool import CHECKS as POOL
from t1cli.preflight.checks.sandboxes import CHECKS as SANDBOXES
from t1cli.preflight.checks.security import CHECKS as SECURITY
from t1cli.preflight.checks.software import CHECKS as SOFTWARE
from t1cli.preflight.checks.storage import CHECKS as STORAGE
from t1cli.preflight.checks.task_runs import CHECKS as TASK_RUNS
from t1cli.preflight.checks.task_sets import CHECKS as TASK_SETS
from t1cli.preflight.checks.tasks import CHECKS as TASKS
from t1cli.preflight.checks.tracking import CHECKS as TRACKING
from t1cli.preflight.checks.trees import CHECKS as TREES

# A check's `needs` stand before it.
ALL_CHECKS: tuple[Check, ...] = (
    *(*HOST, *MEMORY, *GPUS, *NETWORK),
    *(*SOFTWARE, *TREES, *CLUSTER),
    *(*STORAGE, *MODEL, *CHECKPOINTS),
    *(*SANDBOXES, *POOL, *CONTAINERS),
    *(*TASKS, *TASK_RUNS, *TASK_SETS, *HARNESS, *GROUP_FILTER, *INFERENCE),
    *(*TRACKING, *SECURITY),
)
