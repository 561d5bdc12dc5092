"""The desk of a training run: tells viewers how it goes, and does what they ask at the loop's safe points."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from paddock.control.broadcast import Broadcast, Film
from paddock.control.channel import Channel
from paddock.control.requests import Answer, Request
from paddock.core.errors import InputError, unknown_choice
from paddock.core.pace import Pace
from paddock.rollout.actor import load_policy

if TYPE_CHECKING:
    from paddock.orchestration.orchestrator import Orchestrator

SLOWEST, FASTEST = 0.05, 1000.0  # times real time
EXTRA = "._extra_state"  # of a component: what belongs to the episodes under way, and to no policy
FRAMES_PER_SECOND = 30.0  # of an environment that does not say


class Desk:
    """Stands between the channel's thread and the loop. What changes the run happens in `take_requests`."""

    def __init__(self, orchestrator: Orchestrator) -> None:
        self._orchestrator = orchestrator
        self._control = orchestrator.control
        self._context = orchestrator.context
        environment: Any = self._context.environment
        self._view = getattr(environment, "view", None)
        self.channel = Channel(self)
        film = Film(self.channel, orchestrator.workflow.actor, orchestrator.make_eval_env)
        self._film = film
        rate = float(environment.metadata.get("render_fps") or FRAMES_PER_SECOND)
        self.broadcast = Broadcast(self.channel, self._control, self._view, film, 1.0 / rate)
        self._pace = Pace()
        self._loaded: str | None = None
        self._doings: dict[str, Callable[..., Answer]] = {
            "save": self._save,
            "load": self._load,
            "speed": self._set_speed,
            "explore": self._set_exploring,
        }
        if hasattr(environment, "set_reward_weight"):
            self._doings["reward"] = self._set_reward

    def open(self) -> None:
        """From here on viewers can come."""
        self._context.collector.after_step = self.broadcast.after_step
        self.channel.open(self._orchestrator.run_folder.path)

    def close(self) -> None:
        self._context.collector.after_step = None
        for request in self._control.take():
            request.answer({"ok": False, "error": "the run has ended."})
        self.channel.close()
        self._film.close()

    # --- the channel's thread ---

    def welcome(self) -> dict[str, Any]:
        kind = "racing" if self._view is not None else "video"
        return {"kind": kind, "can": ["pause", "resume", "stop", *self._doings], "status": self.status()}

    def scene(self, track: int) -> dict[str, Any]:
        return self._view.scene(track) if self._view is not None else {"kind": "video"}

    def status(self) -> dict[str, Any]:
        orchestrator, control = self._orchestrator, self._control
        phase = orchestrator.scheduler.current_phase()
        state = "paused" if orchestrator.is_paused else "running"
        return {
            "status": "stopping" if control.stop_requested_by else state,
            "phase": phase.name if phase else None,
            "agent_steps": orchestrator.counters.agent_steps,
            "seconds": round(orchestrator.seconds, 2),
            "steps_per_second": round(self._pace(orchestrator.counters.agent_steps), 1),
            "speed": self.broadcast.speed,
            "explore": self._context.collector.explores,
            "latest": {
                name: value for name, value in dict(orchestrator.metrics.latest).items() if math.isfinite(value)
            },
            "rewards": self._rewards(),
            "policy": self._loaded,
            "video_problem": self._film.problem,
        }

    def input(self, message: dict[str, Any]) -> None:
        """Nobody drives a training run by hand."""

    def request(self, message: dict[str, Any], answer: Callable[[Answer], None]) -> None:
        command, by = str(message.get("command")), str(message.get("by", "channel"))
        arguments = message.get("arguments") or {}
        if command == "pause":
            self._control.pause(by)
        elif command == "resume":
            self._control.resume()
        elif command == "stop":
            self._control.stop(by)
        elif command in self._doings:
            self._control.ask(Request(command, dict(arguments), by, answer))
            return
        else:
            raise unknown_choice("command", command, ["pause", "resume", "stop", *self._doings])
        answer({"ok": True})

    def _rewards(self) -> dict[str, float]:
        return {
            name: float(weight) for name, weight in getattr(self._context.environment, "reward_weights", {}).items()
        }

    # --- the loop ---

    def take_requests(self) -> None:
        """Do what has been asked for, and write it down."""
        self._control.fulfil(self._doings, self._note)

    def _note(self, **details: Any) -> None:
        orchestrator = self._orchestrator
        orchestrator.run_folder.event("control", agent_steps=orchestrator.counters.agent_steps, **details)

    def _save(self, name: str | None = None) -> Answer:
        return {"policy": self._orchestrator.save_by_hand(name)}

    def _load(self, folder: str, policy: str) -> Answer:
        load_into(self._orchestrator.workflow.actor(), Path(folder))
        self._loaded = policy
        return {"policy": policy}

    def _set_speed(self, factor: float | None) -> Answer:
        if factor is not None and not SLOWEST <= factor <= FASTEST:
            raise InputError(
                f"speed is {factor}; allowed: {SLOWEST} to {FASTEST} times real time, or null for no limit."
            )
        self.broadcast.speed = None if factor is None else float(factor)
        return {"factor": self.broadcast.speed}

    def _set_exploring(self, on: bool) -> Answer:
        self._context.collector.explores = bool(on)
        return {"on": bool(on)}

    def _set_reward(self, term: str, weight: float) -> Answer:
        before = self._rewards().get(term)
        environment: Any = self._context.environment
        environment.set_reward_weight(term, float(weight))
        return {"term": term, "weight": float(weight), "before": before}


def _finite(metrics: dict[str, Any]) -> dict[str, float]:
    return {name: float(value) for name, value in metrics.items() if math.isfinite(value)}


def load_into(actor: Any, folder: Path) -> None:
    """Put a saved policy's numbers into a living one, if it is built alike; otherwise nothing is changed."""
    here = actor.state_dict()
    passing = {name: value for name, value in here.items() if name.endswith(EXTRA)}
    there = {name: value for name, value in load_policy(folder).state_dict().items() if not name.endswith(EXTRA)}
    there |= passing
    misfits = [name for name in here.keys() | there.keys() if _shape(here.get(name)) != _shape(there.get(name))]
    if misfits:
        name = sorted(misfits)[0]
        in_it, in_this = (_shape(values.get(name)) or "not there" for values in (there, here))
        raise InputError(
            f"the policy in '{folder.name}' does not fit this run: '{name}' is {in_it} in it and {in_this} here. "
            "Load one that was trained with the same networks."
        )
    actor.load_state_dict(there)


def _shape(value: Any) -> tuple[int, ...] | None:
    return tuple(getattr(value, "shape", ())) if value is not None else None
