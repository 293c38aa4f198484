"""S8 at a launch: the file-descriptor limits of the Ray that runs, against the trials of a rollout (catalogue S8)."""

from __future__ import annotations

from collections.abc import Collection

from t1cli.cluster.jobs import Jobs
from t1cli.cluster.limits import how_to_raise, needed_open_files, too_low
from t1cli.cluster.probe import open_files
from t1cli.errors import CouldNotAsk, Diagnostic, Refused
from t1cli.launch.backend import Progress
from t1cli.spec.experiment import ExperimentSpec


def refuse_low_limits(jobs: Jobs, spec: ExperimentSpec, *, accepted: Collection[str], progress: Progress) -> None:
    """Raise Refused with how to restart Ray where a running limit is too low; what cannot be read is said."""
    trials = spec.rollout.groups_launched * spec.rollout.samples_per_prompt
    try:
        low = too_low(open_files(jobs), trials)
    except (CouldNotAsk, Refused) as problem:
        progress(f"S8: file-descriptor limits are unknown: {problem.message}")
        return
    if not low:
        return
    needed = needed_open_files(trials)
    found = [f"the {p.process} of {p.node} may open {p.soft} files, {trials} trials may need {needed}" for p in low]
    if "S8" in accepted:
        progress(f"S8 accepted: {'; '.join(found)}")
        return
    error = Refused(f"S8: {found[0]}")
    error.diagnostics = tuple(
        Diagnostic(f"S8: {text}", jobs.address, hint=how_to_raise(process, trials))
        for text, process in zip(found, low, strict=True)
    )
    raise error
