"""One interface in real time: time-steps that run in a thread while the agent thinks, with rtgym's rules.

`step(action)` waits for the time-step in which the action before was applied, gives that one's observation and reward,
and begins the time-step in which `action` is applied. So an action is one step late by construction, and the newest
entry of the action buffer has had no influence on the observation beside it.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paddock.environments.realtime.benchmark import StepDurations
from paddock.environments.realtime.clock import SECOND, Clock, nanoseconds
from paddock.environments.realtime.elastic import ElasticGrid
from paddock.environments.realtime.interface import InterfaceAway, check_interface, check_spaces
from paddock.environments.realtime.thread import InterfaceThread
from paddock.environments.realtime.timing import STALL, StepTiming

log = logging.getLogger(__name__)

CLOSE_SECONDS = 5.0
Step = tuple[tuple[Any, ...], float, bool, bool, dict[str, Any], StepTiming]


@dataclass(frozen=True)
class LoopSettings:
    """Of the real-time loop; durations in s. The names are rtgym's where it has one."""

    time_step_duration: float = 0.05
    start_obs_capture: float = 0.05
    time_step_timeout_factor: float = 1.0
    ep_max_length: int | None = None
    act_in_obs: bool = True
    act_buf_len: int = 1
    reset_act_buf: bool = True
    last_act_on_reset: bool = False
    wait_on_done: bool = False
    stall_timeout: float = 5.0
    reset_timeout: float | None = 60.0
    act_prepro_func: Callable[[Any], Any] | None = None
    obs_prepro_func: Callable[[tuple[Any, ...]], Sequence[Any]] | None = None


@dataclass
class _Captured:
    """What a time-step found, and when its capture began, ns."""

    observation: tuple[Any, ...]
    reward: float
    terminated: bool
    info: dict[str, Any]
    timing: StepTiming
    began: int


class RealTimeLoop:
    """An interface with `reset`, `step`, `wait` and `close`; observations are tuples, as rtgym gives them."""

    def __init__(self, make: Callable[[], Any], settings: LoopSettings, clock: Clock, name: str = "interface") -> None:
        self.settings, self.clock, self.name = settings, clock, name
        duration = nanoseconds(settings.time_step_duration)
        tolerance = nanoseconds(settings.time_step_duration * settings.time_step_timeout_factor)
        self._grid = ElasticGrid(duration, nanoseconds(settings.start_obs_capture), tolerance)
        self._thread = InterfaceThread(clock, name)
        self._doing = "construction"
        self._is_running = self._waited = self._is_closed = False
        self._due = self._returned = 0
        self._steps = 0
        self._seen: tuple[Any, ...] = ()
        self.durations = StepDurations()
        self._sent: int | None = None  # when the control of the time-step before went out
        try:
            self._call("construction", lambda: self._construct(make))
        except BaseException:
            self._thread.close(CLOSE_SECONDS)
            raise
        # Longer than what is shown if nothing is: the newest action is sent all the same.
        self._buffer: deque[NDArray[Any]] = deque(maxlen=max(1, settings.act_buf_len))
        self._fill_buffer()

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[tuple, dict[str, Any]]:
        """Begin an episode, once the time-step under way has ended."""
        self._finish_time_step()
        self._steps = 0
        if self.settings.reset_act_buf:
            self._fill_buffer()
        elif not self.settings.last_act_on_reset:
            self._buffer[-1] = self.default_action.copy()  # What stood there was never applied.
        seen, info = self._call("reset", lambda: self.interface.reset(seed=seed, options=options))
        observation = self._observed((*seen, *self._shown_actions()))
        self._seen = observation[: len(seen)]
        self._is_running = True
        self._begin(inference=0)
        self._returned = self.clock.now()
        return observation, info

    def step(self, action: NDArray[Any]) -> Step:
        """(observation, reward, terminated, truncated, info, timing) of the time-step that ends now."""
        if not self._is_running:
            raise RuntimeError("step was called without a reset before it")
        called = self.clock.now()
        inference = called - self._returned
        self._buffer.append(np.array(action))
        try:
            if not self._thread.join(self._due + nanoseconds(self.settings.stall_timeout)):
                return self._stalled()
        except BaseException:
            self._is_running = False
            raise
        joined = self.clock.now()
        found: _Captured = self._thread.take()
        self._seen = found.observation
        self._steps += 1
        limit = self.settings.ep_max_length
        truncated = not found.terminated and limit is not None and self._steps >= limit
        if found.terminated or truncated:
            self._is_running = False
            if self.settings.wait_on_done:
                self.wait()
        else:
            self._begin(inference)
        self._returned = self.clock.now()
        found.timing.observation_age = (self._returned - found.began) / SECOND
        self._note(called, joined, found.timing)
        observation = (*found.observation, *self._shown_actions())
        return observation, found.reward, found.terminated, truncated, found.info, found.timing

    def _note(self, called: int, joined: int, timing: StepTiming) -> None:
        """The figures of this call and of the time-step that it ends."""
        self.durations.timed_out += timing.timed_out
        self.durations.add(
            step_duration=(self._returned - called) / SECOND,
            join_duration=(joined - called) / SECOND,
            inference_duration=timing.inference,
            send_control_duration=timing.send,
            get_obs_duration=timing.capture,
        )

    def set_time_step_duration(self, seconds: float, factor: float | None = None) -> None:
        """Time-steps of another duration, from the one after the running one on; factor: of the time-out."""
        factor = self.settings.time_step_timeout_factor if factor is None else factor
        self._change(time_step_duration=seconds, time_step_timeout_factor=factor)
        self._grid.duration, self._grid.tolerance = nanoseconds(seconds), nanoseconds(seconds * factor)

    def set_start_obs_capture(self, seconds: float) -> None:
        """Captures begin so long after a time-step's start, likewise."""
        self._change(start_obs_capture=seconds)
        self._grid.capture_after = nanoseconds(seconds)

    def set_ep_max_length(self, steps: int | None) -> None:
        """Episodes are truncated after so many steps; None: never."""
        self._change(ep_max_length=steps)

    def set_default_action(self, action: NDArray[Any]) -> None:
        """What is sent while an episode begins."""
        self._change()
        self.default_action = np.array(action, self.action_space.dtype).reshape(self.action_space.shape)

    def _change(self, **values: Any) -> None:
        """New settings, once the running time-step is over."""
        if not self.clock.wait_for(lambda: self._thread.is_idle, self._deadline()):
            raise self._away()
        self.settings = replace(self.settings, **values)

    def call(self, doing: str, job: Callable[[], Any]) -> Any:
        """What a job gives in the interface's thread, between episodes. No time limit holds for it."""
        self._finish_time_step()
        self._is_running = False
        self._doing = doing
        self._thread.start(job)
        self._thread.join(None)
        return self._thread.take()

    def wait(self) -> None:
        """Let the interface wait, if it can. A time-out of the next time-step is then not the agent's."""
        self._finish_time_step()
        self._call("wait", getattr(self.interface, "wait", lambda: None))
        self._waited = True

    def close(self) -> None:
        """End the thread; the interface's own `close`, if it has one, is called in it."""
        if self._is_closed:
            return
        self._is_closed = True
        if (end := getattr(self.interface, "close", None)) is not None and self._has_come_back():
            try:
                self._call("close", end)
            except Exception as error:
                log.warning("the interface '%s' raised %s in close: %s", self.name, type(error).__name__, error)
        if not self._thread.close(CLOSE_SECONDS):
            log.warning("the interface '%s' does not come back from %s; its thread stays.", self.name, self._doing)

    def _has_come_back(self) -> bool:
        """Whether the time-step under way ends soon; what it raises does not matter any more."""
        try:
            return self._thread.join(self.clock.now() + nanoseconds(CLOSE_SECONDS))
        except Exception as error:
            log.info("the interface '%s' raised %s before its end: %s", self.name, type(error).__name__, error)
            return True

    def _construct(self, make: Callable[[], Any]) -> None:
        self.interface = make()
        check_interface(self.interface, self.name)
        if (use_clock := getattr(self.interface, "use_clock", None)) is not None:
            use_clock(self.clock)
        self.observation_space = self.interface.get_observation_space()
        self.action_space = self.interface.get_action_space()
        check_spaces(self.observation_space, self.action_space, self.name)
        self.default_action = np.array(self.interface.get_default_action(), self.action_space.dtype)

    def _begin(self, inference: int) -> None:
        """Start the time-step in which the buffer's newest action is applied."""
        control, waited = self._buffer[-1].copy(), self._waited
        self._waited = False
        grid = self._grid
        begins = max(self.clock.now(), grid.end or 0)
        self._due = begins + max(grid.duration, grid.capture_after)
        timing = StepTiming(inference=inference / SECOND)
        self._thread.start(lambda: self._time_step(control, timing, is_excused=waited))

    def _time_step(self, control: NDArray[Any], timing: StepTiming, *, is_excused: bool) -> _Captured | None:
        """In the thread: the control goes out first, whatever the clock says; then capture and end keep to the grid."""
        interface, clock, prepare = self.interface, self.clock, self.settings.act_prepro_func
        began = clock.now()
        self._doing = "send_control"
        interface.send_control(control if prepare is None else prepare(control))
        sent = clock.now()
        if self._sent is not None and self._steps:  # Not over a reset.
            self.durations.add(time_step_duration=(sent - self._sent) / SECOND)
        self._sent = sent
        late_by, is_anew = self._grid.begin(sent)
        timing.send, timing.late_by = (sent - began) / SECOND, late_by / SECOND
        timing.timed_out = is_anew and not is_excused
        if not self._thread.sleep_until(self._grid.capture):
            return None
        self._doing = "get_obs_rew_terminated_info"
        began = clock.now()
        seen, reward, terminated, info = interface.get_obs_rew_terminated_info()
        timing.capture = (clock.now() - began) / SECOND
        observation = self._observed(tuple(seen))
        assert self._grid.end is not None
        self._thread.sleep_until(self._grid.end)
        return _Captured(observation, float(reward), bool(terminated), dict(info), timing, began)

    def _stalled(self) -> Step:
        """The episode is cut short with what was seen last: the interface does not come back."""
        self._is_running = False
        self._returned = self.clock.now()
        timing = StepTiming(observation_age=np.nan, capture=np.nan, reason=STALL)
        return (*self._seen, *self._shown_actions()), 0.0, False, True, {}, timing

    def _finish_time_step(self) -> None:
        """Wait for whatever the interface is in. An error of a time-step that no call waits for is dropped
        with its observation: the reset that follows tells whether the world is there."""
        try:
            has_ended = self._thread.join(self._deadline())
        except Exception as error:
            log.info("the interface '%s' raised %s before a reset: %s", self.name, type(error).__name__, error)
            return
        if not has_ended:
            raise self._away()

    def _call(self, doing: str, job: Callable[[], Any]) -> Any:
        """What a call into the interface gives, in its thread."""
        self._doing = doing
        self._thread.start(job)
        if not self._thread.join(self._deadline()):
            raise self._away()
        return self._thread.take()

    def _deadline(self) -> int | None:
        timeout = self.settings.reset_timeout
        return None if timeout is None else self.clock.now() + nanoseconds(timeout)

    def _away(self) -> InterfaceAway:
        return InterfaceAway(
            f"the interface '{self.name}' has not come back from {self._doing} for {self.settings.reset_timeout:g} s; "
            "see whether the robot or the game still runs. environment.reset_timeout says how long is waited.",
            is_back=lambda: self._thread.is_idle,
        )

    def _observed(self, entries: tuple[Any, ...]) -> tuple[NDArray[Any], ...]:
        """Copies: the interface may write its next capture into the same arrays while the agent reads these."""
        prepare = self.settings.obs_prepro_func
        return tuple(np.array(entry) for entry in (entries if prepare is None else prepare(entries)))

    def _fill_buffer(self) -> None:
        assert self._buffer.maxlen is not None
        self._buffer.extend(self.default_action.copy() for _ in range(self._buffer.maxlen))

    def _shown_actions(self) -> tuple[NDArray[Any], ...]:
        """Oldest first."""
        is_shown = self.settings.act_in_obs and self.settings.act_buf_len > 0
        return tuple(action.copy() for action in self._buffer) if is_shown else ()
