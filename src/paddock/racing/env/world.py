"""From the racing environment's options to tracks, cars and a `World`; and its reference laps, by place."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from paddock.racing.env.config import RacingConfig
from paddock.racing.env.observations import Sensors
from paddock.sim.cars.car import CarParameters, load_car
from paddock.sim.reference.lap import ReferenceLap, reference_lap
from paddock.sim.settings import StartSettings, WorldSettings
from paddock.sim.tracks.obstacles import with_obstacles
from paddock.sim.tracks.sources import load_track
from paddock.sim.tracks.track import PROCEDURAL_PREFIX, Track
from paddock.sim.world import World


def car_of(config: RacingConfig) -> CarParameters:
    """The car that `config` describes."""
    return load_car(config.car).with_changes(**config.car_parameters)


def tracks_of(config: RacingConfig) -> list[Track]:
    """The tracks that `config` describes: scaled, turned round, with obstacles, as it says."""
    if config.procedural:
        first = config.procedural_seed
        names = [_procedural_name(config, seed) for seed in range(first, first + config.procedural)]
    else:
        names = [config.track] if isinstance(config.track, str) else list(config.track)
    return [_prepared(load_track(name), config, index) for index, name in enumerate(names)]


def _procedural_name(config: RacingConfig, seed: int) -> str:
    """A seed's track, with a width and a radius of its own where the configuration gives ranges; `mixed`: by turns."""
    random = np.random.default_rng(seed)
    is_circuit = config.procedural_style == "circuit" or (config.procedural_style == "mixed" and seed % 2 == 0)
    name = f"{PROCEDURAL_PREFIX}{seed}{':style=circuit' if is_circuit else ''}"
    for option, span in (("width", config.procedural_width), ("radius", config.procedural_radius)):
        if span is not None:
            name += f":{option}={random.uniform(*span):.1f}"
    return name


def _prepared(track: Track, config: RacingConfig, index: int) -> Track:
    # A road that was made at the size of a 1:10 car stays as it is.
    track = track.sized_for(car_of(config).width) if config.scale is None else track.scaled(config.scale)
    if config.reverse:
        track = track.reversed()
    if config.obstacles:
        track = with_obstacles(track, config.obstacles, seed=config.obstacle_seed + index)
    return track


def build_world(config: RacingConfig, sensors: Sensors, num_envs: int, *, substep_actions: bool = False) -> World:
    """A world with a group of cars for each environment; `substep_actions`: see `WorldSettings`."""
    car, group_size = car_of(config), 1 + config.opponents.count
    tracks = tracks_of(config)
    start = config.start
    settings = WorldSettings(
        control_rate=config.control_rate,
        substeps=config.substeps,
        edge=config.edge,
        obstacles=config.obstacle_effect,
        allow_reverse=config.allow_reverse,
        action_delay=config.action_delay,
        action_jitter=config.action_jitter,
        substep_actions=substep_actions,
        group_size=group_size,
        contact=config.opponents.contact,
        start=StartSettings(
            place=start.place,
            at=start.at,
            lateral=start.lateral,
            heading=start.heading,
            speed=(start.speed[0] * car.top_speed, start.speed[1] * car.top_speed),
        ),
        randomise=config.randomise,
        random_track=len(tracks) > 1 and group_size == 1,
        rays=sensors.rays,
        course=sensors.course,
        telemetry=sensors.telemetry,
        camera=sensors.camera,
    )
    return World(tracks, car, num_envs * group_size, settings=settings)


class ReferenceTable:
    """The reference laps of several tracks end to end, to be looked up for all cars at once.

    Point `p` of track `t` is in row `first_row[t] + p`.
    """

    def __init__(self, tracks: Sequence[Track], car: CarParameters) -> None:
        self.laps: list[ReferenceLap] = [reference_lap(track, car) for track in tracks]
        points = np.array([len(track) for track in tracks])
        self.first_row = np.concatenate([[0], np.cumsum(points)[:-1]])
        self.offset = self._joined("offset")
        self.speed = self._joined("speed")
        self.curvature = self._joined("curvature")

    def _joined(self, name: str) -> NDArray[np.float32]:
        return np.concatenate([getattr(lap, name) for lap in self.laps]).astype(np.float32)
