"""Pictures of a running racing environment: what `render()` gives."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from paddock.racing.env.config import RacingConfig
from paddock.racing.env.world import ReferenceTable, car_of
from paddock.render.scene.renderer import Hud, Renderer, Scene, SpeedLine
from paddock.sim.cars.car import SHIFT_UP_RPM
from paddock.sim.world import World


class RacingPicture:
    """Draws any environment of a batch; one renderer a track, made when first needed."""

    def __init__(self, config: RacingConfig, world: World, reference: ReferenceTable | None) -> None:
        self.config, self.world, self.reference = config, world, reference
        self.car = car_of(config)
        self.group = world.settings.group_size
        self._renderers: dict[int, Renderer] = {}

    def draw(self, index: int) -> NDArray[np.uint8]:
        """The picture of environment `index`, uint8 [height, width, 3]."""
        picture, world = self.config.picture, self.world
        car = index * self.group
        cars = [*range(car, car + self.group), *self._ghosts(car)]
        scene = Scene(
            x=world.x[cars],
            y=world.y[cars],
            heading=world.heading[cars],
            steer=world.steer[cars],
            length=self.car.length,
            width=self.car.width,
            colour=[*range(self.group), *(each // self.group for each in cars[self.group :])],
            ghost=[number >= self.group or bool(world.ghost[each]) for number, each in enumerate(cars)],
            rays=self._ray_ends(car) if picture.rays else None,
            hud=self._instruments(car) if picture.hud else None,
        )
        return self._renderer(int(world.track_index[car])).draw(scene)

    def _ghosts(self, car: int) -> list[int]:
        same = np.flatnonzero(self.world.track_index == self.world.track_index[car])
        others = same[(same % self.group == 0) & (same != car)]
        return others[: self.config.picture.ghosts].tolist()

    def _ray_ends(self, car: int) -> NDArray[np.floating] | None:
        settings, world = self.world.settings.rays, self.world
        if settings is None:
            return None
        angles = settings.ray_angles() + world.heading[car]
        reach = world.rays[car, 0]
        nose = settings.mount * np.array([np.cos(world.heading[car]), np.sin(world.heading[car])])
        start = np.array([world.x[car], world.y[car]]) + nose
        return start + np.stack([np.cos(angles), np.sin(angles)], axis=1) * reach[:, None]

    def _instruments(self, car: int) -> Hud:
        world = self.world
        gear = int(world.gear[car])
        return Hud(
            speed=float(np.hypot(world.vx[car], world.vy[car])),
            gear=gear if gear > 0 else -1,
            rpm=float(world.rpm[car]),
            rpm_limit=SHIFT_UP_RPM * 1.05,
            lap=int(world.lap_count[car]),
            lap_time=float(world.time[car] - world.lap_start[car]),
            last_lap=float(world.last_lap_time[car]),
            best_lap=float(world.best_lap_time[car]),
        )

    def _renderer(self, track: int) -> Renderer:
        if track not in self._renderers:
            picture = self.config.picture
            line = None
            if self.reference is not None:
                lap = self.reference.laps[track]
                line = SpeedLine(lap.x, lap.y, lap.speed)
            self._renderers[track] = Renderer(
                self.world.tracks[track],
                (picture.width, picture.height),
                picture.camera,
                car_length=self.car.length,
                line=line,
                minimap=picture.minimap,
            )
        return self._renderers[track]
