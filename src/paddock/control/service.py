"""The service of a training run: it answers viewers, and carries out their commands at the loop's safe points."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

from msgspec import UNSET

from paddock.control import messages as m
from paddock.control.beside import DriverBeside
from paddock.control.broadcast import Broadcast, Film, LiveSnapshots, View, goes_on
from paddock.control.channel import Channel
from paddock.control.requests import Control, PendingCommand
from paddock.core.errors import InputError, unknown_choice
from paddock.core.pace import Pace
from paddock.rollout.actor import ActorModule, load_weights
from paddock.rollout.episodes import MakeEnv
from paddock.rollout.experience import WorkerState


@dataclass(frozen=True)
class RunState:
    """How a run stands. seconds: wall clock of training; latest: the newest value of each metric; workers: those that
    collect elsewhere."""

    agent_steps: int
    seconds: float
    phase: str | None
    is_paused: bool
    explores: bool
    latest: Mapping[str, float]
    workers: Sequence[WorkerState] = ()


class ServedRun(Protocol):
    """What the service needs of a run.

    view: None for an environment without cars. time_step: s of one step of the environments. set_reward_weight: None
    where the environment has no such weights.
    """

    control: Control
    folder: Path
    view: View | None
    time_step: float
    make_env: MakeEnv
    set_reward_weight: Callable[[str, float], None] | None

    def state(self) -> RunState: ...

    def actor(self) -> ActorModule: ...

    def reward_weights(self) -> dict[str, float]: ...

    def set_exploring(self, explores: bool) -> None: ...

    def set_step_hook(self, hook: Callable[[], None] | None) -> None: ...

    def save_by_hand(self, name: str | None) -> str: ...

    def note(self, event: str, **details: Any) -> None: ...


class RunService:
    """Stands between the channel's thread and the loop. What changes the run happens in `handle_requests`."""

    def __init__(self, run: ServedRun) -> None:
        self._run, self._control = run, run.control
        self.channel = Channel(self, self._update_step_hook)
        self._film = Film(self.channel, run.actor, run.make_env)
        self.broadcast = Broadcast(self.channel, run.control, run.view, self._film, run.time_step)
        self._beside = DriverBeside.of(run.view, self.channel, run.note)
        self._live: LiveSnapshots | None = None
        self._pace = Pace()
        self._is_open = False
        self._hook_lock = threading.Lock()  # The loop (speed) and the channel (viewers) both set the hook.
        self._loaded: str | None = None
        self._commands: dict[type[m.Command], Callable[[Any], m.Answer]] = {
            m.Save: self._save,
            m.Load: self._load,
            m.Speed: self._set_speed,
            m.Explore: self._set_exploring,
        }
        if run.set_reward_weight is not None:
            self._commands[m.Reward] = self._set_reward

    def open(self) -> None:
        """From here on viewers can connect."""
        self._is_open = True
        if self._run.view is not None and goes_on(self._run.view):
            told = self._beside.tell if self._beside is not None else lambda: None
            self._live = LiveSnapshots(self.channel, self._run.view, told)
        self.channel.open(self._run.folder)

    def close(self) -> None:
        self._is_open = False
        self._update_step_hook()
        for request in self._control.take():
            request.answer({"ok": False, "error": "the run has ended."})
        self.channel.close()
        if self._live is not None:
            self._live.close()
        self._film.close()

    def _update_step_hook(self) -> None:
        """Only a run that is watched or held to a pace does anything after a step."""
        with self._hook_lock:
            is_needed = self._is_open and self.broadcast.is_needed
            self._run.set_step_hook(self.broadcast.after_step if is_needed else None)
        if self._live is not None:
            self._live.look()

    # --- the channel's thread ---

    def welcome(self) -> m.Welcome:
        return m.Welcome("racing" if self._run.view is not None else "video", self._can(), self.status())

    def scene(self, track: int) -> dict[str, Any]:
        return self._run.view.scene(track) if self._run.view is not None else {"kind": "video"}

    def status(self) -> m.Status:
        state = self._run.state()
        word = "paused" if state.is_paused else "running"
        return m.Status(
            status="stopping" if self._control.stop_requested_by else word,
            phase=state.phase,
            agent_steps=state.agent_steps,
            seconds=round(state.seconds, 2),
            steps_per_second=round(self._pace(state.agent_steps), 1),
            speed=self.broadcast.speed,
            explore=state.explores,
            latest={name: float(value) for name, value in dict(state.latest).items() if math.isfinite(value)},
            rewards=self._run.reward_weights(),
            workers=[worker_status(worker) for worker in state.workers[: m.MOST_WORKERS]] or UNSET,
            policy=self._loaded,
            video_problem=self._film.problem,
            **(self._beside.status() if self._beside is not None else {}),
        )

    def input(self, message: m.DriverInput) -> None:
        """A car beside the agent's may be driven by hand, the agent's own never."""
        if self._beside is not None:
            self._beside.input(message)

    def request(self, request: m.Request, answer: Callable[[m.Answer], None]) -> None:
        command = m.parse_command(request.command, request.arguments)
        if isinstance(command, m.Pause):
            self._control.pause(request.by)
        elif isinstance(command, m.Resume):
            self._control.resume()
        elif isinstance(command, m.Stop):
            self._control.stop(request.by)
        elif type(command) in self._commands:
            self._control.submit(PendingCommand(command, request.by, answer))
            return
        elif self._beside is not None and isinstance(command, m.DriveMode | m.Reset):
            answer({"ok": True, **self._beside.do(command, request.by)})
            return
        else:
            raise unknown_choice("command", request.command, self._can())
        answer({"ok": True})

    def _can(self) -> list[str]:
        driving: list[type[m.Command]] = [] if self._beside is None else [m.DriveMode, m.Reset]
        kinds: list[type[m.Command]] = [m.Pause, m.Resume, m.Stop, *self._commands, *driving]
        return [m.command_name(kind) for kind in kinds]

    # --- the loop ---

    def handle_requests(self) -> None:
        """Carry out the commands that wait, and log them."""
        self._control.handle(self._commands, self._note)

    def _note(self, **details: Any) -> None:
        self._run.note("control", **details)

    def _save(self, command: m.Save) -> m.Answer:
        return {"policy": self._run.save_by_hand(command.name)}

    def _load(self, command: m.Load) -> m.Answer:
        if command.folder is None:
            raise InputError("'load' needs the folder of the policy.")
        load_weights(self._run.actor(), Path(command.folder))
        self._loaded = command.policy
        return {"policy": command.policy}

    def _set_speed(self, command: m.Speed) -> m.Answer:
        self.broadcast.speed = command.factor
        self._update_step_hook()
        return {"factor": command.factor}

    def _set_exploring(self, command: m.Explore) -> m.Answer:
        self._run.set_exploring(command.on)
        return {"on": command.on}

    def _set_reward(self, command: m.Reward) -> m.Answer:
        assert self._run.set_reward_weight is not None
        before = self._run.reward_weights().get(command.term)
        self._run.set_reward_weight(command.term, command.weight)
        return {"term": command.term, "weight": command.weight, "before": before}


def worker_status(worker: WorkerState) -> m.WorkerStatus:
    """A worker as viewers see it: texts are cut to what a message may hold, and what is not finite is left out."""
    found: dict[str, Any] = {
        name: None if isinstance(value, float) and not math.isfinite(value) else value
        for name, value in asdict(worker).items()
    }
    found["name"], found["host"] = worker.name[: m.LONGEST_NAME], worker.host[: m.LONGEST_NAME]
    found["pause"] = worker.pause[: m.LONGEST_TEXT]
    return m.WorkerStatus(**found)
