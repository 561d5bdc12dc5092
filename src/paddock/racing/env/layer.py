"""The environment layer in the world's kernel: rewards, ends, observations and autoreset in the launch that drives.

Shapes: E environments, N cars, K reward terms, L last actions of A numbers.
"""

from __future__ import annotations

from sys import getrefcount
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paddock.racing.env.observations import ObservationSet
from paddock.racing.env.world import ReferenceTable
from paddock.sim import layout
from paddock.sim.kernels.records import Episodes, Results
from paddock.sim.rewards.terms import RewardSet
from paddock.sim.tables import no_episodes
from paddock.sim.world import World

Values = NDArray[np.float32]
HANDED_OUT = 6  # fields of `Results` that agents may keep
MOST_ROOMS = 4


class EnvironmentLayer:
    """What is remembered of the episodes, shared with the kernel, and the launch that goes on with them.

    `commands` [2, N, 2] steer and throttle of the last step and of this one; `last_actions` [E, L, A], newest first;
    `returns` float64 [1 + K, E], of the reward and of each term.
    """

    def __init__(
        self,
        world: World,
        rewards: RewardSet,
        observations: ObservationSet,
        *,
        num_envs: int,
        top_speed: float,
        limit: int | None,
        observes: bool,
    ) -> None:
        """limit: steps of an episode. observes: whether the kernel fills observations, which have to be flat."""
        terms, shown = len(rewards.names), (observations.config.sensing.last_actions, observations.action_size)
        self._world = world
        self.commands = np.zeros((2, world.num_cars, 2), np.float32)
        self.last_actions = np.zeros((num_envs, *shown), np.float32)
        padded, final = (layout.rows(1 + terms, num_envs, np.float64) for _ in range(2))
        self.returns = padded[:, :num_envs]
        self._final_returns = final
        self._shown = np.zeros((num_envs, observations.action_size), np.float32)
        self._observation_shape = num_envs, observations.size if observes else 0
        self._observations = observations
        self._rooms: list[Results] = []
        self._unheld = _references(Results._make(np.zeros(0) for _ in Results._fields))  # arrays that only a room holds
        self._filled: list[NDArray[np.intp]] = []  # rows of final observations that each of them holds
        self._single_rows, self._row_width = layout.RESULT_TERMS + terms, layout.row_stride(world.num_cars)
        self._rows = slice(0, world.num_cars, world.settings.group_size)
        self._has_reference = False
        parts = observations.for_kernel() if observes else {}
        nothing, _ = no_episodes()
        self._episodes: Episodes = nothing._replace(
            step_time=world.settings.time_step,
            commands=self.commands,
            actions=self._shown,
            last_actions=self.last_actions,
            returns=padded,
            **rewards.for_kernel(top_speed),
            **parts,
        )
        self._options = self._episodes.options
        self._options[layout.EPISODE_SCORES] = 1
        self._options[layout.EPISODE_OBSERVES] = observes
        self._options[layout.EPISODE_LIMIT] = limit or 0

    def refer_to(self, reference: ReferenceTable) -> None:
        """Let the kernel read the reference laps, for the terms that need them."""
        if not self._has_reference:
            table = np.stack([reference.offset, reference.speed, reference.curvature], axis=1)
            rows = reference.first_row.astype(np.int64)
            self._episodes = self._episodes._replace(reference=table, reference_rows=rows)
            self._has_reference = True

    def step(self, command: Values, actions: Values | None, *, restarts: bool) -> Results:
        """Drive the cars with `command`, as `World.step` takes it, and go on with their episodes; results of the E cars
        that learn.

        actions: [E, A] what is put in front of the last actions, None for nothing. restarts: same-step autoreset.
        """
        self._options[layout.EPISODE_RESTARTS] = restarts
        self._options[layout.EPISODE_SHIFTS] = actions is not None
        if actions is not None:
            self._shown[...] = actions
        room, rows = self._room(), self._rows
        self._world.step(command, episodes=self._episodes, results=room)
        return Results(
            doubles=room.doubles[:, rows],
            singles=room.singles[:, rows],
            integers=room.integers[:, rows],
            flags=room.flags[:, rows],
            observation=room.observation,
            final_observation=room.final_observation,
            final_returns=room.final_returns[:, : len(self.last_actions)],
        )

    def final_observation(self, results: Results) -> Values:
        """[E, size] what was last seen of the episodes that ended, zero elsewhere."""
        final, done = results.final_observation, results.flags[layout.RESULT_DONE]
        ended = np.flatnonzero(done)
        rows = final[ended]
        self._observations.finish(rows)
        for number, room in enumerate(self._rooms):
            if room.final_observation is final:
                final[self._filled[number]] = 0.0
                self._filled[number] = ended
        final[ended] = rows
        return final

    def _room(self) -> Results:
        """Memory for the results of a step that no agent holds any more: agents keep what they are given, and new
        memory of this size would be cleared by the system, page by page, in every step."""
        for room in self._rooms:
            if _references(room) <= self._unheld:
                return room
        width = self._row_width
        room = Results(
            doubles=np.zeros((layout.RESULT_DOUBLES, width)),
            singles=np.zeros((self._single_rows, width), np.float32),
            integers=np.zeros((layout.RESULT_INTEGERS, width), np.int32),
            flags=np.zeros((layout.RESULT_FLAGS, width), np.bool_),
            observation=np.zeros(self._observation_shape, np.float32),
            final_observation=np.zeros(self._observation_shape, np.float32),
            final_returns=self._final_returns,
        )
        if len(self._rooms) < MOST_ROOMS:
            self._rooms.append(room)
            self._filled.append(np.zeros(0, np.intp))
        return room


def _references(room: Results) -> int:
    """To the array of a room that has most of them; how many of them looking takes is up to the interpreter."""
    return max(getrefcount(array) for array in room[:HANDED_OUT])


def told(results: Results, names: tuple[str, ...]) -> dict[str, Any]:
    """The `info` of a step, from what the kernel wrote."""
    doubles, singles, flags = results.doubles, results.singles, results.flags
    return {
        "reward_terms": dict(zip(names, singles[layout.RESULT_TERMS :], strict=True)),
        "lap_completed": flags[layout.RESULT_LAP_COMPLETED],
        "lap_time": doubles[layout.RESULT_LAP_TIME],
        "progress": doubles[layout.RESULT_PROGRESS],
        "speed": singles[layout.RESULT_SPEED],
        "off_track": flags[layout.RESULT_OFF_TRACK],
        "collided": flags[layout.RESULT_COLLIDED],
    }
