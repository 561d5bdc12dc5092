"""A person's car in the real-time world in which an agent learns: it stays when the agent begins anew, and is driven
over the control channel."""

import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from paddock.control.messages import CAR_COLUMNS, HUMAN
from paddock.control.requests import Control
from paddock.control.service import RunService, RunState
from paddock.core.errors import InputError
from paddock.environments.realtime.clock import SECOND
from paddock.racing.env.config import racing_config
from paddock.racing.env.vector import make as make_racing
from paddock.racing.realtime import person as persons
from paddock.racing.realtime.person import CAR
from paddock.racing.realtime.racing_realtime import make, realtime_config
from paddock.racing.realtime.timed_world import TimedWorld
from viewer import ChannelViewer

OPPONENTS = {"count": 1, "driver": "person", "contact": False}
STEP = SECOND // 20
GO = np.array([0.0, 1.0], np.float32)


def options(**changes):
    values = {"track": "oval", "observation": "course", "max_episode_steps": None, "opponents": OPPONENTS}
    return racing_config(**{**values, "start": {"place": "grid"}, **changes})


def begun(**changes):
    """A world at its first moment, and its person."""
    world = TimedWorld(options(**changes))
    world.env.reset(seed=1)
    world.begin(0)
    assert world.person is not None
    return world, world.person


def test_the_classical_driver_has_the_car_until_a_person_takes_it_and_after_a_silence(monkeypatch):
    world, person = begun()
    cars = world.env.world
    world.advance(40 * STEP)
    assert cars.vx[CAR] > 5.0, "the classical driver drives"
    person.set_mode("manual")
    for step in range(41, 101):
        person.steer(0.0, 0.0, 1.0)
        world.advance(step * STEP)
    assert abs(cars.vx[CAR]) < 0.5, "the person brakes"
    assert person.status()["mode"] == "manual"
    assert world.env.view.human == CAR
    monkeypatch.setattr(persons, "AWAY", -1.0)
    world.advance(130 * STEP)
    assert person.status()["mode"] == "ai"
    assert world.env.view.human is None
    assert cars.vx[CAR] > 2.0, "the classical driver has it again"


def test_a_reset_of_the_agent_leaves_the_persons_car_where_it_is_and_the_world_goes_on_between_episodes():
    world, person = begun(reward={"ends": {"no_progress_steps": 10}})
    cars = world.env.world
    world.send(0, np.array([0.0, -1.0], np.float32))
    world.advance(30 * STEP)
    *_, terminated, _ = world.capture(30 * STEP)
    assert terminated, "the agent's car stood for ten steps"
    reward_after_the_end = world.capture(31 * STEP)[1]
    before, driven = cars.distance[CAR], world.driven
    world.advance(60 * STEP)
    assert world.driven == driven + 29
    assert cars.distance[CAR] > before + 10.0, "it drives on while the agent has no episode"
    assert reward_after_the_end == world.capture(60 * STEP)[1] == 0.0
    place = (float(cars.x[CAR]), float(cars.y[CAR]), float(cars.vx[CAR]))
    world.env.reset(seed=2)
    world.begin(60 * STEP)
    assert (float(cars.x[CAR]), float(cars.y[CAR]), float(cars.vx[CAR])) == place
    assert cars.distance[0] == 0.0
    assert cars.vx[0] == 0.0, "the agent's car stands on the grid again"
    person.place()
    assert cars.vx[CAR] == 0.0
    assert cars.s[CAR] == pytest.approx(0.0, abs=0.1)


def test_a_lap_of_the_person_is_told_with_its_sectors():
    world, person = begun()
    world.advance(20 * STEP)
    person.place()
    step = 20
    while person.status()["laps"] == 0:
        step += 20
        assert step < 4_000
        world.advance(step * STEP)
    status = person.status()
    assert status["lap"]["valid"]
    assert status["lap"]["lap_time"] == status["last_lap"] == pytest.approx(sum(status["lap"]["sectors"]), abs=0.1)


def test_a_person_is_refused_where_time_does_not_pass_and_is_no_part_of_evaluations():
    with pytest.raises(InputError, match="real time only"):
        make_racing(options(), 1)
    with pytest.raises(ValueError, match="process of its own"):
        realtime_config(options(), process=False)
    config = realtime_config(options(opponents={**OPPONENTS, "count": 2}))
    for other in (config.in_virtual_time(), config.without_person()):
        assert (other.opponents.count, other.opponents.driver) == (1, "classical")


@pytest.fixture
def served(tmp_path: Path):
    """A world in a process of its own with the service of a run that shows it; an agent is the test's business."""
    env = make(realtime_config(options()), 1)
    env.announce(tmp_path)
    env.reset(seed=1)
    notes: list[dict] = []
    state = RunState(0, 0.0, "joint", False, True, {})
    run = SimpleNamespace(
        control=Control(), folder=tmp_path, view=env.view_of(tmp_path), time_step=0.05, make_env=None,
        set_reward_weight=None, state=lambda: state, actor=lambda: None, reward_weights=dict,
        set_step_hook=lambda hook: None, note=lambda event, **details: notes.append({"event": event, **details}),
    )  # fmt: skip
    service = RunService(run)
    service.open()
    yield env, notes, tmp_path
    service.close()
    run.view.close()
    env.close()
    while ChannelViewer.opened:
        ChannelViewer.opened.pop().close()


def cars_of(snapshot: dict) -> list[dict[str, float]]:
    rows = np.frombuffer(snapshot["cars"], "<f4").reshape(-1, len(CAR_COLUMNS))
    return [dict(zip(CAR_COLUMNS, row.tolist(), strict=True)) for row in rows]


def test_a_person_drives_over_the_control_channel_beside_an_agent_that_acts(served):
    env, notes, folder = served
    viewer = ChannelViewer(folder)
    welcome = viewer.wait_for("welcome")
    assert {"mode", "reset"} <= set(welcome["can"])
    assert welcome["status"]["car"] == CAR
    viewer.send({"type": "watch", "rate": 60.0, "cars": [CAR]})
    assert viewer.ask("mode", mode="manual")["ok"]
    assert viewer.ask("reset")["ok"]
    viewer.send({"type": "input", "steer": 0.0, "throttle": 0.0, "brake": 1.0})
    assert not viewer.ask("mode", mode="sideways")["ok"]
    times = []
    for _ in range(30):  # the agent keeps its foot on the throttle, and so does the person
        viewer.send({"type": "input", "steer": 0.1, "throttle": 1.0, "brake": 0.0})
        env.step(GO[None])
        times.append(viewer.wait_for("snapshot"))
    agent, mine = cars_of(times[-1])
    assert agent["speed"] > 3.0
    assert mine["speed"] > 3.0
    assert mine["steer"] > 0.0
    assert int(mine["state"]) & HUMAN
    assert not int(agent["state"]) & HUMAN
    seconds = [one["time"] for one in times]
    assert seconds == sorted(seconds)
    assert seconds[-1] - seconds[0] > 0.5, "the world's own clock, although the run took no step"
    assert viewer.wait_for("status")["mode"] == "manual"
    assert notes == [{"event": "control", "command": "mode", "by": "test", "mode": "manual"}]
    give_up = time.monotonic() + 30
    while viewer.wait_for("status")["mode"] != "ai":  # The person says nothing more.
        assert time.monotonic() < give_up
