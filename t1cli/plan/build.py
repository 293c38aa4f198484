"""Spec → Plan, in reading order."""

from __future__ import annotations

from t1cli.plan.disk import plan_disk
from t1cli.plan.draft import Draft
from t1cli.plan.findings import all_findings
from t1cli.plan.host import plan_host
from t1cli.plan.memory import plan_memory
from t1cli.plan.memory_overlay import overlay_of
from t1cli.plan.plan import Plan
from t1cli.plan.pool import plan_pool
from t1cli.plan.schedule import plan_schedule
from t1cli.plan.title import title
from t1cli.plan.topology import plan_topology
from t1cli.spec.load import LoadedSpec
from t1cli.spec.locate import shown_path


def build_plan(loaded: LoadedSpec, *, source: str = "") -> Plan:
    """Everything arithmetic can say about a campaign. BadInput for a memory overlay that cannot be read, no more.

    `source` is how the user named the experiment, for the command that the plan proposes next.
    """
    spec = loaded.spec
    topology = plan_topology(spec)
    memory = plan_memory(spec, topology, overlay_of(loaded))
    pool = plan_pool(spec)
    schedule = plan_schedule(spec, topology=topology, pool=pool)
    host = plan_host(spec, topology=topology, memory=memory, pool=pool, schedule=schedule)
    disk = plan_disk(spec, num_parameters=memory.parameters.total)
    draft = Draft(loaded=loaded, topology=topology, memory=memory, host=host, disk=disk, schedule=schedule, pool=pool)
    return Plan(
        name=spec.name,
        digest=loaded.digest,
        verdict=memory.verdict,
        memory=memory.plan,
        host=host,
        disk=disk,
        schedule=schedule,
        pool=pool,
        parameters=memory.parameters,
        findings=all_findings(draft),
        title=title(spec, topology),
        engine=spec.engine.kind,
        source=source or shown_path(loaded.path),
    )
