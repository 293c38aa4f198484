"""Everything that may follow from the alerts of one living run, behind three calls."""

from __future__ import annotations

from dataclasses import dataclass

from t1cli.run.events import EventKind, EventWriter
from t1cli.watch.actions.journal import Journal
from t1cli.watch.actions.pause import PauseAction
from t1cli.watch.actions.pin import PinAction
from t1cli.watch.actions.stop import StopAction
from t1cli.watch.actions.wandb_alert import WandbAlerts
from t1cli.watch.actions.webhook import webhook
from t1cli.watch.engine import Alert
from t1cli.watch.result import WatchResult
from t1cli.watch.session import Session


@dataclass(frozen=True)
class Allowed:
    """What a person lets the watcher do; by default it only tells."""

    stop: bool = False
    pause: bool = False
    grace_seconds: float | None = None
    """Countdown before a stop; None: two usual rollouts, at most five minutes."""
    webhook: str = ""
    wandb_alert: bool = False
    pin_metric: str = ""


class Actions:
    """Answers alerts of a session. Each call returns sentences for the terminal, with nothing secret in them."""

    def __init__(self, session: Session, allowed: Allowed) -> None:
        run = session.opened.run
        self._session = session
        self._journal = Journal(run) if run is not None else None
        self._stop = self._pause = self._pin = self._events = self._wandb = None
        if run is not None and self._journal is not None:
            session.already_told |= self._journal.keys("told")
            rules = {state.rule.name: state.rule for state in session.engine.rules}
            self._events = run.events_jsonl
            self._stop = StopAction(run, self._journal, allowed=allowed.stop, grace_seconds=allowed.grace_seconds)
            self._pause = PauseAction(run, self._journal, rules, allowed=allowed.pause)
            self._pin = PinAction(run, allowed.pin_metric) if allowed.pin_metric else None
            self._wandb = WandbAlerts(run, self._journal) if allowed.wandb_alert else None
        name, counting = session.opened.name, session.opened.counting
        hook = webhook(allowed.webhook, name, self._journal, counting=counting) if allowed.webhook else None
        self._deliveries = [one for one in (hook, self._wandb and self._wandb.delivery) if one]

    def alert(self, raised: Alert) -> list[str]:
        """An alert has been told: write it down, deliver it, and begin what it asks for."""
        said = []
        if self._journal is not None:
            self._journal.note("told", raised.key)
        if self._events is not None and raised.severity in ("warning", "stop"):
            events = EventWriter(self._events)
            events.write(EventKind.ALERT, rule=raised.rule, severity=raised.severity, message=raised.says)
            events.close()
        for delivery in self._deliveries:
            delivery.consider(raised)
            said += [delivery.trouble] if delivery.trouble else []
        if self._pause is not None and self._pause.consider(raised):
            said.append(f"the next rollout is held; `t1 watch {self._session.opened.name} --ack` lets it go on")
        if self._stop is not None:
            begun = self._stop.consider(raised, self._session.stall.usual_seconds)
            if begun is not None:
                said.append(
                    f"stopping after the next save, unless `t1 watch {self._session.opened.name} --ack` calls it off"
                )
        return said + self.tick()

    def tick(self) -> list[str]:
        """Time has passed."""
        said = []
        if self._stop is not None:
            said.append(self._stop.tick(self._session.result))
        if self._pin is not None:
            said.append(self._pin.tick(self._session.engine.history))
        for delivery in self._deliveries:
            if delivery.trouble:
                delivery.deliver()
        return [sentence for sentence in said if sentence]

    def ended(self, result: WatchResult) -> list[str]:
        """The run is over."""
        if self._wandb is not None:
            self._wandb.close()
        said = self._stop.report(result) if self._stop is not None else ""
        return [said] if said else []
