"""Rules that watch a run, written in YAML, and what happens when one holds: told, sent, run, paused, stopped."""

from __future__ import annotations

import fnmatch
import json
import logging
import math
import os
import subprocess
import threading
import time
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from pydantic import Field, field_validator, model_validator

from paddock.config.schema import Schema
from paddock.control.requests import Control
from paddock.core import permission
from paddock.core.conditions import parse_condition
from paddock.experiments.run import RunFolder

log = logging.getLogger(__name__)

NOT_FINITE, NO_IMPROVEMENT, STALLED = "not finite", "no improvement", "stalled"
DELIVERY_SECONDS = 10.0  # that a webhook or a command may take; a run that ends waits no longer


class AlertConfig(Schema):
    """One rule.

    when: `not finite` (any of `metrics` became NaN or infinite), `no improvement` (of the metric that evaluations are
    ranked by, over `patience` evaluations), `stalled` (nothing logged for `seconds`), or a condition over metrics that
    has to hold at `patience` logged points in a row. An alert is always an event and a line in the terminal.
    """

    when: str
    metrics: list[str] = Field(default_factory=lambda: ["*"])
    patience: int = Field(default=1, ge=1)
    seconds: float = Field(default=600.0, gt=0)
    action: Literal["tell", "pause", "stop"] = "tell"
    webhook: str | None = None
    command: str | None = None
    repeat_seconds: float = Field(default=600.0, ge=0)

    @field_validator("when")
    @classmethod
    def _is_understood(cls, text: str) -> str:
        if text not in (NOT_FINITE, NO_IMPROVEMENT, STALLED):
            parse_condition(text)
        return text

    @model_validator(mode="after")
    def _webhook_is_an_address(self) -> AlertConfig:
        if self.webhook is not None and not self.webhook.startswith(("http://", "https://")):
            raise ValueError(f"the webhook '{self.webhook}' is not an address that begins with http:// or https://")
        return self


@dataclass
class _State:
    """How often in a row a rule has held, the best score it has seen and how many evaluations ago, when it was told."""

    held: int = 0
    best: float = -math.inf
    since_best: int = 0
    told: float = -math.inf


@dataclass
class Alerts:
    """The rules of a run. The loop shows it every logged point, a thread asks whether points still come."""

    rules: Mapping[str, AlertConfig]
    metric: str
    run: RunFolder
    control: Control
    _is_data_only: bool = field(default_factory=permission.is_data_only)  # as of when the run was built
    _states: dict[str, _State] = field(default_factory=dict)
    _deliveries: list[threading.Thread] = field(default_factory=list)

    def check(self, new: Mapping[str, float], latest: Mapping[str, float], agent_steps: int) -> None:
        """Look at a logged point: its own metrics, and the latest value of every metric."""
        for name, rule in self.rules.items():
            reason = self._reason(name, rule, new, latest)
            if reason is not None:
                self._raise(name, rule, reason, agent_steps)

    def check_silence(self, seconds: float, agent_steps: int) -> None:
        """Look at how long ago the last point was logged."""
        for name, rule in self.rules.items():
            if rule.when == STALLED and seconds >= rule.seconds:
                self._raise(name, rule, f"nothing has been logged for {seconds:.0f} s", agent_steps)

    def close(self) -> None:
        """Let what is on its way arrive, for a while."""
        give_up = time.monotonic() + DELIVERY_SECONDS
        for delivery in self._deliveries:
            delivery.join(max(give_up - time.monotonic(), 0.0))

    def _reason(
        self, name: str, rule: AlertConfig, new: Mapping[str, float], latest: Mapping[str, float]
    ) -> str | None:
        state = self._states.setdefault(name, _State())
        if rule.when == STALLED:
            return None
        if rule.when == NOT_FINITE:
            broken = [key for key, value in new.items() if not math.isfinite(value) and _fits(key, rule.metrics)]
            return f"{', '.join(broken)} not finite" if broken else None
        if rule.when == NO_IMPROVEMENT:
            return self._unimproved(state, rule, new.get(self.metric))
        state.held = state.held + 1 if parse_condition(rule.when).holds(latest) else 0
        if state.held < rule.patience:
            return None
        shown = {term.metric: latest[term.metric] for terms in parse_condition(rule.when).alternatives for term in terms
                 if term.metric in latest}  # fmt: skip
        return f"{rule.when} ({', '.join(f'{key} is {value:.4g}' for key, value in shown.items())})"

    def _unimproved(self, state: _State, rule: AlertConfig, score: float | None) -> str | None:
        if score is None:
            return None
        if score > state.best:
            state.best, state.since_best = score, 0
            return None
        state.since_best += 1
        if state.since_best < rule.patience:
            return None
        return f"{self.metric} has not improved on {state.best:.4g} in {state.since_best} evaluations"

    def _raise(self, name: str, rule: AlertConfig, reason: str, agent_steps: int) -> None:
        state = self._states.setdefault(name, _State())
        if time.monotonic() - state.told < rule.repeat_seconds:
            return
        state.told = time.monotonic()
        log.warning("alert %s at step %s: %s", name, f"{agent_steps:,}", reason)
        self.run.event("alert", alert=name, reason=reason, action=rule.action, agent_steps=agent_steps)
        told = {"run": self.run.name, "alert": name, "reason": reason, "agent_steps": agent_steps}
        if rule.webhook is not None:
            self._deliver(name, _post, rule.webhook, told)
        if rule.command is not None:
            self._deliver(name, _run, rule.command, told)
        if rule.action == "stop":
            self.control.stop(f"alert {name}")
        elif rule.action == "pause":
            self.control.pause(f"alert {name}")

    def _deliver(self, name: str, send: Any, to: str, told: dict[str, Any]) -> None:
        """In a thread of its own: whoever is told must not hold up who learns."""
        if self._is_data_only:
            log.warning("alert %s is not delivered: the run came from elsewhere; see docs/security.md.", name)
            return

        def attempt() -> None:
            try:
                send(to, told)
            except Exception as error:
                log.warning("alert %s could not be delivered to %s: %s", name, to, error)
                self.run.event("alert_undelivered", alert=name, to=to, error=str(error))

        thread = threading.Thread(target=attempt, name=f"alert-{name}", daemon=True)
        thread.start()
        self._deliveries.append(thread)


def _post(address: str, told: dict[str, Any]) -> None:
    request = urllib.request.Request(
        address, data=json.dumps(told).encode(), headers={"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=DELIVERY_SECONDS):
        pass


def _run(command: str, told: dict[str, Any]) -> None:
    """What is told is in the command's environment: PADDOCK_RUN, PADDOCK_ALERT, PADDOCK_REASON, PADDOCK_AGENT_STEPS."""
    environment = {f"PADDOCK_{key.upper()}": str(value) for key, value in told.items()}
    subprocess.run(
        command, shell=True, check=True, timeout=DELIVERY_SECONDS, env={**os.environ, **environment},
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip


def _fits(name: str, patterns: list[str]) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)
