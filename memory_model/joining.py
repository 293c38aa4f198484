"""Readings of a log joined to the prediction of the run that wrote it, so that calibration can compare them."""

from __future__ import annotations

from collections.abc import Iterable

from memory_model.architecture import Architecture
from memory_model.calibration import Observation
from memory_model.device import Device
from memory_model.layout import Layout
from memory_model.readings import Instrument, Reading
from memory_model.terms.term import Role
from memory_model.workload import Workload


def stage_of_rank(rank: int, layout: Layout) -> int | None:
    """The pipeline stage of a global rank: pp is Megatron's outermost axis (order tp-cp-ep-dp-pp)."""
    stage = rank // (layout.world // layout.pp)
    return stage if 0 <= stage < layout.pp else None


def join(
    readings: Iterable[Reading],
    *,
    arch: Architecture,
    layout: Layout,
    workload: Workload,
    device: Device,
    role: Role = "actor",
) -> tuple[Observation, ...]:
    """One observation per instrument and stage: the highest reading, for peaks are what is predicted.

    Readings without a rank are compared with the highest stage. `other_process` needs a second role or engine in the
    workload to be compared with; without one it is left out.
    """
    highest: dict[tuple[Instrument, int | None], Reading] = {}
    shared = len(workload.roles) > 1 or workload.colocated_rollout
    for reading in readings:
        if reading.instrument == "other_process" and not (shared and workload.train_offload):
            continue
        key = (reading.instrument, None if reading.rank is None else stage_of_rank(reading.rank, layout))
        if key not in highest or reading.gib > highest[key].gib:
            highest[key] = reading
    return tuple(
        Observation(
            label=f"{instrument}{'' if stage is None else f', stage {stage}'} ({reading.source})",
            instrument=instrument,
            gib=reading.gib,
            arch=arch,
            layout=layout,
            workload=workload,
            device=device,
            role=role,
            stage=stage,
        )
        for (instrument, stage), reading in highest.items()
    )
