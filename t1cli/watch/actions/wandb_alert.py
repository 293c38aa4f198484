"""Alerts through Weights & Biases, which mails or posts them as each person has set it up there."""

from __future__ import annotations

from typing import Any

from t1cli.errors import BadInput
from t1cli.run.directory import RunDirectory
from t1cli.run.run_files import saved_spec
from t1cli.run.trackers.wandb_tracker import quiet_settings
from t1cli.watch.actions.delivery import Delivery
from t1cli.watch.actions.journal import Journal, watch_dir
from t1cli.watch.counting import OF_RUN
from t1cli.watch.engine import Alert

_LEVELS = {"warning": "WARN", "stop": "ERROR"}


class WandbAlerts:
    """A W&B run of the watcher's own beside the campaign's: two writers of one run would disturb each other."""

    def __init__(self, run: RunDirectory, journal: Journal) -> None:
        self._run = run
        self._wandb_spec = _tracking(run)
        self._wandb: Any = None
        self.delivery = Delivery("wandb", "alerted", self._send, journal)

    def close(self) -> None:
        """Flush what was sent."""
        if self._wandb is not None:
            self._wandb.finish()
            self._wandb = None

    def _send(self, alert: Alert) -> None:
        """Raises OSError when W&B cannot be reached."""
        import wandb

        try:
            self._wandb = self._wandb or self._opened()
            text = f"{alert.says}\n{alert.advice}\n{alert.metric} = {alert.value} at {OF_RUN.one(alert.step)}"
            self._wandb.alert(f"{self._run.name}: {alert.rule}"[:63], text, _LEVELS[alert.severity])
        except wandb.Error as error:
            raise OSError("not accepted") from error

    def _opened(self) -> Any:
        import wandb

        run, spec = self._run, self._wandb_spec
        directory = watch_dir(run)
        directory.mkdir(parents=True, exist_ok=True)
        return wandb.init(
            project=spec["project"],
            group=spec.get("group") or run.name,
            name=f"{run.name}-attempt_{run.attempt}-watch",
            job_type="watch",
            mode=spec.get("mode", "online"),
            dir=str(directory),
            settings=quiet_settings(),
        )


def _tracking(run: RunDirectory) -> dict[str, Any]:
    """The run's own `tracking.wandb`. Raises BadInput when it has none."""
    tracking = (saved_spec(run) or {}).get("tracking")
    spec = tracking.get("wandb") if isinstance(tracking, dict) else None
    if not isinstance(spec, dict) or not spec.get("project"):
        raise BadInput(
            f"{run.name} does not track with W&B, so there is nowhere to alert",
            where="--wandb-alert",
            hint="set tracking.wandb.project in the spec, or use --webhook",
        )
    return spec
