"""The racing world as Gymnasium environments: `paddock/Racing-v0`, one car or thousands in one batch.

Shapes: E environments, each one learning car; N cars in all, E times the cars that share a road.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from paddock.core.errors import InputError
from paddock.racing.env.actions import build_actions
from paddock.racing.env.config import RacingConfig, racing_config
from paddock.racing.env.delays import DelayedCommands, DelayedReadings
from paddock.racing.env.layer import EnvironmentLayer, told
from paddock.racing.env.observations import ObservationSet, StridedHistory
from paddock.racing.env.opponents import PERSON, Opponents, build_opponents
from paddock.racing.env.render import RacingPicture
from paddock.racing.env.rewards import build_rewards
from paddock.racing.env.teacher import Teacher
from paddock.racing.env.world import ReferenceTable, build_world, car_of
from paddock.racing.view import RacingView
from paddock.sim.kernels.compiling import announced
from paddock.sim.kernels.records import Results
from paddock.sim.layout import (
    RESULT_BEST_LAP_TIME,
    RESULT_DONE,
    RESULT_LAPS,
    RESULT_PROGRESS,
    RESULT_REWARD,
    RESULT_STEPS,
    RESULT_TERMINATED,
    RESULT_TRUNCATED,
)
from paddock.sim.rewards.terms import RewardInputs
from paddock.sim.world import seed_of_rows

STARTS = ("s", "lateral", "heading_error", "speed", "track_index")
Rows = slice | NDArray[np.intp]


def make(config: RacingConfig, num_envs: int, render_mode: str | None = None) -> RacingVectorEnv:
    """`num_envs` learning cars as one Gymnasium vector environment."""
    if config.opponents.count and config.opponents.driver == PERSON:
        raise InputError(
            f"a person drives in real time only: use environment=racing_realtime for opponents.driver={PERSON}."
        )
    return RacingVectorEnv(num_envs, render_mode, config=config)


class RacingVectorEnv(VectorEnv):
    """E learning cars stepped by one kernel; same-step autoreset, final observations and infos as arrays.

    Options are those of `RacingConfig`, by keyword. Rewards float32 [E]; `terminated` by the reward set's `ends` or a
    crash, `truncated` by `max_episode_steps`. `info` holds arrays [E]:

    - `reward_terms`: what each term gave, by name;
    - `lap_completed`, and `lap_time` s of the lap completed in this step, 0 where there was none;
    - `progress` net m of the episode, `speed` m/s, `off_track`, `collided`;
    - after an end `final_obs`, `final_info` (`episode_return`, `episode_length`, `distance`, `laps`, `best_lap_time`,
      `reward_terms` summed over the episode), with rows valid where `_final_obs`, `_final_info`.
    """

    @announced()
    def __init__(
        self,
        num_envs: int = 1,
        render_mode: str | None = None,
        *,
        config: RacingConfig | None = None,
        opponent: Callable[[Any], Any] | None = None,
        reading_stride: int = 1,
        commands: type[DelayedCommands] | None = None,
        **options: Any,
    ) -> None:
        assert config is None or not options, "give either a config or options by keyword"
        self.config = config or racing_config(num_envs=num_envs, **options)
        self.num_envs, self.render_mode, self._first_row = num_envs, render_mode, 0
        self.metadata = {
            "render_modes": ["rgb_array"],
            "render_fps": self.config.control_rate,
            "autoreset_mode": AutoresetMode.SAME_STEP,
        }
        self._group = 1 + self.config.opponents.count
        self._rows = slice(0, None, self._group)
        self._actions = build_actions(self.config)
        self.observations = ObservationSet(self.config, car_of(self.config), self._actions.size)
        delays = self.config.delays
        is_late = delays.delays_actions or commands is not None
        sensors = self.observations.sensors(reading_stride)
        self.world = build_world(self.config, sensors, num_envs, substep_actions=is_late)
        self.commands: DelayedCommands | None = None  # None: they act at once
        self.delayed: DelayedReadings | None = None  # None: they are seen at once
        if is_late:
            self.commands = (commands or DelayedCommands)(delays, self.world, self._rows)
        self.readings: Any = self.world if reading_stride == 1 else StridedHistory(self.world, reading_stride)
        self._opponents = build_opponents(self.config, self.world, self.observations, self._actions, opponent)
        self.rewards = build_rewards(self.config.reward, self.world.num_cars, self.config.track_scale)
        self._step_time = self.world.settings.time_step
        self._teacher = Teacher(self, self._actions) if self.config.teacher else None
        seen = self.observations.space
        self.single_observation_space = seen if self._teacher is None else self._teacher.space(seen)
        self.single_action_space = self._actions.space
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.stays = np.zeros(self.world.num_cars, np.bool_)  # cars that a reset of their environment leaves in place
        is_plain = self.config.is_flat and not self.config.has_images
        self._is_observed = is_plain and reading_stride == 1 and not (delays.delays_observations or self.config.teacher)
        self._layer = EnvironmentLayer(
            self.world,
            self.rewards,
            self.observations,
            num_envs=num_envs,
            top_speed=self._car.top_speed,
            limit=self.config.max_episode_steps,
            observes=self._is_observed,
        )
        self._previous_command, self._command = self._layer.commands
        self._last_actions = self._layer.last_actions
        self._episode_return, self._episode_terms = self._layer.returns[0], self._layer.returns[1:]
        if delays.delays_observations:
            self.delayed = DelayedReadings(delays, self.world, self._rows, self.observations, self._read(self._rows))

    # --- Gymnasium ---

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin episodes. Options: `reset_mask` [E]; `s` m, `lateral` m, `heading_error` rad, `speed` m/s and
        `track_index`, each a number or [E], for starts at chosen places."""
        super().reset(seed=seed)
        options = options or {}
        mask = np.asarray(options.get("reset_mask", np.ones(self.num_envs)), dtype=np.bool_)
        starts = {name: self._start_of_group(name, options[name]) for name in STARTS if name in options}
        first_car = self._first_row * self._group
        world_seed = seed_of_rows(int(self.np_random.integers(2**31)), first_car) if mask.all() else None
        self._begin(mask, seed=world_seed, **starts)
        return self._observe(self._rows), {}

    def take_rows(self, first: int) -> None:
        """Be the cars from environment `first` on of a larger environment, from the next reset of all on."""
        self._first_row = first
        self.world.take_tracks(first)

    def reset_alike(self, *, seed: int, starts: int) -> tuple[Any, dict[str, Any]]:
        """Begin episodes in which car i starts as car i + `starts` does: the starts that `reset(seed)` would give the
        first cars, again and again. Cars that are drawn at random (`randomise`) differ all the same."""
        self.reset(seed=seed)
        world, first = self.world, np.arange(self.num_envs) % starts * self._group
        at: dict[str, Any] = {
            "s": world.s,
            "lateral": world.lateral,
            "heading_error": world.heading_error,
            "speed": world.vx,
        }
        places = {name: np.array(values[first]) for name, values in at.items()}
        options = {**places, "track_index": np.array(world.track_index[first])}
        return self.reset(seed=seed, options=options)

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """One decision for every car; finished episodes begin anew within the same step."""
        if self._group == 1 and self._is_observed and self.rewards.is_shipped:
            return self._step_in_one_launch(actions)
        observation, reward, terminated, truncated, info = self.advance(actions)
        done = terminated | truncated
        if done.any():
            world, rows = self.world, self._rows
            info["final_obs"], info["_final_obs"] = observation, done
            info["_final_info"] = done.copy()
            info["final_info"] = self._final_info(
                info["_final_info"],
                self._layer.returns.copy(),
                episode_length=world.steps[rows].copy(),
                distance=world.distance[rows].copy(),
                laps=world.lap_count[rows].copy(),
                best_lap_time=world.best_lap_time[rows].copy(),
            )
            self._begin(done)
            observation = self._with_fresh_rows(observation, np.flatnonzero(done))
        return observation, reward, terminated, truncated, info

    def render(self) -> tuple[NDArray[np.uint8], ...] | None:
        """Pictures of the first `picture.frames` cars, uint8 [height, width, 3] each."""
        if self.render_mode is None:
            gymnasium.logger.warn("render() draws nothing: make the environment with render_mode='rgb_array'.")
            return None
        count = min(self.config.picture.frames, self.num_envs)
        return tuple(self._picture.draw(index) for index in range(count))

    # --- beyond Gymnasium ---

    def advance(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """`step` without autoreset."""
        sent, shown = self._decide(actions)
        return self.drive(sent, shown)

    def drive(
        self, sent: NDArray[np.float32], shown: NDArray[np.float32] | None = None
    ) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """The same for steer and throttle [E, 2] that go out to the cars in this step; shown: [E, A] what agents see of
        them as their last action, None where that is not a new one."""
        plan = self._plan(sent)
        if not self.rewards.is_shipped:
            return self._drive_with_own_rewards(plan, shown)
        results = self._launch(plan, shown, restarts=False)
        if self.delayed is not None:
            self.delayed.add(self._read(self._rows))
        singles, flags = results.singles, results.flags
        reward, terminated, truncated = singles[RESULT_REWARD], flags[RESULT_TERMINATED], flags[RESULT_TRUNCATED]
        if self._group > 1:
            reward, terminated, truncated = (values.copy() for values in (reward, terminated, truncated))
        observation = results.observation if self._is_observed else self._observe(self._rows)
        return observation, reward, terminated, truncated, told(results, self.rewards.names)

    def _drive_with_own_rewards(
        self, plan: NDArray[np.float32], shown: NDArray[np.float32] | None
    ) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """`drive` where a function of a person's own counts, which no kernel can call."""
        if shown is not None:
            self._actions.shift(self._last_actions, shown)
        self.world.step(plan)
        if self.delayed is not None:
            self.delayed.add(self._read(self._rows))
        inputs = self._reward_inputs()
        ended = self.rewards.terminated(inputs)
        reward, parts = self.rewards.compute(inputs, ended)
        reward, parts, terminated = reward[self._rows].copy(), parts[:, self._rows], ended[self._rows].copy()
        self._episode_return += reward
        self._episode_terms += parts
        limit = self.config.max_episode_steps
        truncated = np.zeros(self.num_envs, dtype=np.bool_)
        if limit is not None:
            np.greater_equal(self.world.steps[self._rows], limit, out=truncated)
            truncated &= ~terminated
        return self._observe(self._rows), reward, terminated, truncated, self._info(parts)

    def let_drive(self, opponents: Opponents) -> None:
        """Give the cars that are not learning to somebody else than the configured driver."""
        self._opponents = opponents

    def set_reward_weight(self, name: str, value: float) -> None:
        """Change a reward term's weight; it counts from the next step."""
        self.rewards.set_weight(name, value)

    @property
    def reward_weights(self) -> dict[str, float]:
        """The weight of each reward term as it is now."""
        return self.rewards.weights

    def get_state(self) -> dict[str, Any]:
        """Everything that changes, as plain values and arrays: put back with `set_state`, all goes on bit for bit."""
        return {
            "world": self.world.get_state(),
            "rewards": self.rewards.get_state(),
            "random": self.np_random.bit_generator.state,
            "opponents": self._opponents.get_state() if self._opponents is not None else {},
            **{name: part.line.get_state() for name, part in self._lines().items()},
            **{name: getattr(self, f"_{name}").copy() for name in STATE},
        }

    def set_state(self, state: dict[str, Any]) -> None:
        """Go on from a state of an environment with the same options and number of cars."""
        self.world.set_state(state["world"])
        self.rewards.set_state(state["rewards"])
        self.np_random.bit_generator.state = state["random"]
        if self._opponents is not None:
            self._opponents.set_state(state["opponents"])
        for name, part in self._lines().items():
            part.line.set_state(state[name])
        for name in STATE:
            getattr(self, f"_{name}")[...] = state[name]

    @cached_property
    def reference(self) -> ReferenceTable:
        """Reference laps of all tracks, computed when first needed."""
        return ReferenceTable(self.world.tracks, car_of(self.config))

    @cached_property
    def view(self) -> RacingView:
        """What people see of the cars while they drive."""
        return RacingView(self)

    # --- inside ---

    def _step_in_one_launch(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """`step` where the kernel does all of it: one car an environment, a flat observation, shipped rewards."""
        sent, shown = self._decide(actions)
        results = self._launch(self._plan(sent), shown, restarts=True)
        info, done = told(results, self.rewards.names), results.flags[RESULT_DONE]
        if done.any():
            final = self._layer.final_observation(results)
            info["final_obs"], info["_final_obs"], info["_final_info"] = final, done, done
            info["final_info"] = self._final_info(
                done,
                results.final_returns.copy(),
                episode_length=results.integers[RESULT_STEPS],
                distance=results.doubles[RESULT_PROGRESS],
                laps=results.integers[RESULT_LAPS],
                best_lap_time=results.doubles[RESULT_BEST_LAP_TIME],
            )
            if self.commands is not None:
                self.commands.begin(done)
        singles, flags = results.singles, results.flags
        reward, terminated, truncated = singles[RESULT_REWARD], flags[RESULT_TERMINATED], flags[RESULT_TRUNCATED]
        return results.observation, reward, terminated, truncated, info

    def _decide(self, actions: Any) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Steer and throttle [E, 2] that go out now, and [E, A] what is shown of the actions again."""
        decoded = self._actions.decode(actions)
        sent = decoded if self.commands is None else self.commands.sent(decoded)
        return sent, self._actions.record(actions, decoded)

    def _plan(self, sent: NDArray[np.float32]) -> NDArray[np.float32]:
        """What the world's cars do in this step, from what goes out to the learning ones."""
        self._previous_command[...] = self._command
        self._command[self._rows] = sent
        if self._opponents is not None:
            self._opponents.drive(self._command)
        return self._command if self.commands is None else self.commands.plan(self._command)

    def _launch(self, plan: NDArray[np.float32], shown: NDArray[np.float32] | None, *, restarts: bool) -> Results:
        if self.rewards.needs_reference:
            self._layer.refer_to(self.reference)
        results = self._layer.step(plan, shown, restarts=restarts)
        if self._is_observed and self.observations.needs_finish:
            self.observations.finish(results.observation)
        return results

    def _begin(self, mask: NDArray[np.bool_], **starts: Any) -> None:
        cars = np.repeat(mask, self._group) & ~self.stays
        self.world.reset(None if cars.all() else cars, **starts)
        self.rewards.reset(cars)
        self._command[cars] = 0.0
        self._previous_command[cars] = 0.0
        self._last_actions[mask] = 0.0
        self._episode_return[mask] = 0.0
        self._episode_terms[:, mask] = 0.0
        if self.commands is not None:
            self.commands.begin(mask)
        if self.delayed is not None:
            self.delayed.begin(mask, self._read(np.flatnonzero(mask) * self._group, self._last_actions[mask]))
        if self.rewards.needs_reference:
            self.rewards.start(self._reward_inputs(), cars)

    def _lines(self) -> dict[str, Any]:
        """What is on its way, by name."""
        lines = {"delayed_commands": self.commands, "delayed_readings": self.delayed}
        return {name: part for name, part in lines.items() if part is not None}

    def _start_of_group(self, name: str, value: Any) -> NDArray[Any]:
        """A start given per environment, for all cars of its group: opponents line up behind."""
        per_car = np.repeat(np.broadcast_to(np.asarray(value), (self.num_envs,)), self._group)
        if name == "s":
            behind = np.tile(np.arange(self._group), self.num_envs)
            return per_car - 2.5 * car_of(self.config).length * behind
        return per_car

    def _observe(self, rows: Rows, after: float = 0.0) -> Any:
        """What agents have, `after` control steps after the last step."""
        seen = self._read(rows) if self.delayed is None else self.delayed.seen(self._last_actions, after)
        return seen if self._teacher is None else self._teacher.label(seen, rows)

    def _read(self, rows: Rows, last_actions: NDArray[np.float32] | None = None) -> Any:
        """The sensors of the cars in `rows` as they are now."""
        shown = self._last_actions if last_actions is None else last_actions
        return self.observations.read(self.readings, rows, shown)

    def _with_fresh_rows(self, observation: Any, rows: NDArray[np.intp]) -> Any:
        """A copy of `observation` in which the environments in `rows` are read again."""
        fresh = self._read(rows * self._group, self._last_actions[rows])
        if self._teacher is not None:
            fresh = self._teacher.label(fresh, rows * self._group)
        if isinstance(observation, dict):
            merged = {name: values.copy() for name, values in observation.items()}
            for name, values in merged.items():
                values[rows] = fresh[name]
            return merged
        merged = observation.copy()
        merged[rows] = fresh
        return merged

    def _reward_inputs(self) -> RewardInputs:
        world = self.world
        inputs = RewardInputs(
            step_time=self._step_time,
            top_speed=self._top_speed,
            progress_gain=world.progress_gain,
            speed=world.vx,
            lateral=world.lateral,
            half_width=np.where(world.lateral > 0, world.left_width, world.right_width),
            collided=world.collided,
            off_track=world.off_track,
            wheels_off=world.wheels_off,
            crashed=world.crashed,
            lap_completed=world.lap_completed,
            action=self._command,
            previous_action=self._previous_command,
            car_length=self._car.length,
            car_width=self._car.width,
            world=world,
        )
        if self.rewards.needs_reference:
            reference = self.reference
            at = reference.first_row[world.track_index] + world.point_index
            inputs.reference_offset = reference.offset[at]
            inputs.reference_speed = reference.speed[at]
            inputs.reference_curvature = reference.curvature[at]
        return inputs

    @cached_property
    def _car(self) -> Any:
        return car_of(self.config)

    @cached_property
    def _top_speed(self) -> NDArray[np.float32]:
        return np.full(self.world.num_cars, self._car.top_speed, dtype=np.float32)

    @cached_property
    def _picture(self) -> RacingPicture:
        line = self.reference if self.config.picture.line else None
        return RacingPicture(self.config, self.world, line)

    def _info(self, parts: NDArray[np.float32]) -> dict[str, Any]:
        world, rows = self.world, self._rows
        completed = world.lap_completed[rows].copy()
        return {
            "reward_terms": dict(zip(self.rewards.names, parts, strict=True)),
            "lap_completed": completed,
            "lap_time": np.where(completed, world.last_lap_time[rows], 0.0),
            "progress": world.distance[rows].copy(),
            "speed": world.vx[rows].copy(),
            "off_track": world.off_track[rows].copy(),
            "collided": world.collided[rows].copy(),
        }

    def _final_info(
        self, done: NDArray[np.bool_], returns: NDArray[np.float64], **values: NDArray[Any]
    ) -> dict[str, Any]:
        """Of the episodes that ended: `returns` [1 + K, E] of the reward and its terms, and `values` [E] by name."""
        values = {"episode_return": returns[0], **values}
        terms = dict(zip(self.rewards.names, returns[1:], strict=True))
        return {**values, **{f"_{name}": done for name in values}, "reward_terms": terms, "_reward_terms": done}


STATE = ("command", "previous_command", "last_actions", "episode_return", "episode_terms")


class RacingEnv(gymnasium.Env):
    """One car. Options are those of `RacingConfig`, by keyword; the time limit is `gymnasium.make`'s own."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 20}  # noqa: RUF012 - Gymnasium's own convention

    def __init__(self, render_mode: str | None = None, **options: Any) -> None:
        self.vector = RacingVectorEnv(1, render_mode, **{"max_episode_steps": None, **options})
        self.render_mode = render_mode
        self.metadata = {**self.metadata, "render_fps": self.vector.config.control_rate}
        self.observation_space = self.vector.single_observation_space
        self.action_space = self.vector.single_action_space

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        vector_seed = int(self.np_random.integers(2**31))
        observation, info = self.vector.reset(seed=vector_seed, options=options)
        return _first(observation), info

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, info = self.vector.advance(np.asarray(action)[None])
        return _first(observation), float(reward[0]), bool(terminated[0]), bool(truncated[0]), _first(info)

    def render(self) -> NDArray[np.uint8] | None:
        frames = self.vector.render()
        return None if frames is None else frames[0]

    def set_reward_weight(self, name: str, value: float) -> None:
        """Change a reward term's weight; it counts from the next step."""
        self.vector.set_reward_weight(name, value)

    def get_state(self) -> dict[str, Any]:
        """Everything that changes, random numbers included."""
        return {"vector": self.vector.get_state(), "random": self.np_random.bit_generator.state}

    def set_state(self, state: dict[str, Any]) -> None:
        self.vector.set_state(state["vector"])
        self.np_random.bit_generator.state = state["random"]


def _first(tree: Any) -> Any:
    """The only row of every array, as plain values where it is a single number."""
    if isinstance(tree, dict):
        return {name: _first(value) for name, value in tree.items()}
    row = tree[0]
    return row.item() if isinstance(row, np.generic) else row
