"""Driving: the session as a process with a scripted driver at a WebSocket, and its parts."""

import asyncio
import json
import math
import struct
import time

import numpy as np
import pytest
import torch
import websockets

from paddock.buffers.demonstrations import DemonstrationsBuffer, DemonstrationsConfig, load_episodes
from paddock.buffers.episodes import read_description
from paddock.control.messages import DriveMode
from paddock.core.errors import InputError
from paddock.core.results import drives_folder
from paddock.racing.drive.drivers import SILENCE, HumanInput, load_actor
from paddock.racing.drive.setup import DriveRequest, make_session
from paddock.racing.env.config import Opponents, racing_config
from paddock.racing.env.vector import RacingVectorEnv
from paddock.racing.laps.archive import read_evaluation
from paddock.racing.laps.records import read_laps
from paddock.sim.cars.car import load_car
from viewer import Wall, until

HEADER = struct.Struct("<BBHHHddII")


class ScriptedDriver:
    """Follows the middle of the road at a share of the reference's speed, from what a page is told."""

    def __init__(self, scene: dict, share: float) -> None:
        self.road = np.array(scene["track"]["centre"])
        self.speed = share * np.array(scene["reference"]["speed"])
        self.spacing = scene["track"]["length"] / len(self.road)
        self.length, self.lock = scene["car"]["length"], scene["car"]["steer_limit"]

    def act(self, snapshot: bytes) -> dict:
        x, y, heading, speed = car_of(snapshot)[:4]
        age = time.time() - HEADER.unpack_from(snapshot)[6]
        caution = max(min(1.0, 0.04 / max(age, 1e-3)), 0.4)  # who sees late drives slowly
        nearest = int(np.argmin(np.square(self.road - (x, y)).sum(axis=1)))
        ahead = 1.3 * self.length + 0.35 * speed
        across = self.road[(nearest + max(1, int(ahead / self.spacing))) % len(self.road)] - (x, y)
        bearing = math.remainder(math.atan2(across[1], across[0]) - heading, math.tau)
        steer = math.atan(1.2 * self.length * math.sin(bearing) / math.hypot(*across)) / self.lock
        places = nearest + np.arange(int(1.5 * speed / self.spacing) + 2)
        wanted = caution * self.speed[places % len(self.speed)].min()
        push = (wanted - speed) * 1.9 / self.length
        return {"type": "input", "steer": steer, "throttle": max(push, 0.0), "brake": max(-push, 0.0)}


@pytest.fixture
def wall(tmp_path):
    opened = Wall(tmp_path)
    yield opened
    opened.close()


async def connected(wall, run, act):
    address = f"ws://127.0.0.1:{wall.port}/api/runs/{run}/live"
    headers = {"Authorization": f"Bearer {wall.token}"}
    async with websockets.connect(address, additional_headers=headers, compression=None, max_size=None) as opened:
        await opened.send(json.dumps({"type": "rate", "hz": 60}))
        return await asyncio.wait_for(act(opened), 200)


async def newest(opened, seen: dict) -> dict:
    """Wait for a snapshot, take all that has come, and keep the newest of each kind; laps are gathered."""
    seen.pop("snapshot", None)
    while "snapshot" not in seen:
        message = await opened.recv()
        while message is not None:
            if isinstance(message, bytes):
                seen["snapshot"] = message
            else:
                values = json.loads(message)
                seen.setdefault("laps", []).extend([values] if values["type"] == "lap" else [])
                seen.setdefault("ghosts", set()).update([values["kind"]] if values["type"] == "ghost" else [])
                seen[values["type"]] = values
            try:
                message = await asyncio.wait_for(opened.recv(), 0.0005)
            except TimeoutError:
                message = None
    return seen


def car_of(snapshot: bytes, index: int = 0) -> tuple:
    return struct.unpack_from("<10f", snapshot, HEADER.size + 40 * index)


def test_a_scripted_driver_completes_a_lap_that_is_kept(wall):
    values = {"track": "oval", "car": "f1tenth", "opponent": "classical", "driver": "Script"}
    run = wall.post("/api/drive", **values)["id"]
    (row,) = [row for row in wall.get("/api/runs") if row["id"] == run]
    assert (row["kind"], row["is_live"]) == ("driving", True)
    control = f"/api/runs/{run}/control"

    async def lap(opened):
        seen = await newest(opened, {})
        while "scene" not in seen:
            seen = await newest(opened, seen)
        driver = ScriptedDriver(seen["scene"], 0.55)
        delays = await reactions(opened, seen)
        await asyncio.to_thread(wall.post, control, command="reset")
        factor = 2.5 if np.median(delays) < 0.05 else 1.0  # a machine that is busy sees late
        await asyncio.to_thread(wall.post, control, command="speed", factor=factor)
        while not any(lap["car"] == 0 and lap["valid"] for lap in seen.get("laps", [])):
            seen = await newest(opened, seen)
            await opened.send(json.dumps(driver.act(seen["snapshot"])))
        return seen, delays

    seen, delays = asyncio.run(connected(wall, run, lap))
    (counted,) = [lap for lap in seen["laps"] if lap["car"] == 0 and lap["valid"]]
    assert counted["lap_time"] == pytest.approx(sum(counted["sectors"]), abs=1e-6)
    assert len(counted["deltas"]["reference"]) == 3
    assert "classical" in seen["ghosts"]
    assert int(car_of(seen["snapshot"])[9]) & 4, "the person's car is marked"
    assert HEADER.unpack_from(seen["snapshot"])[2] == 2, "the opponent is there"
    assert np.quantile(delays, 0.25) < 0.1, f"input to reaction {delays}"  # machines that test are busy

    (row,) = wall.get("/api/laps?track=oval")
    assert (row["driver"], row["lap_time"]) == ("Script", pytest.approx(counted["lap_time"], abs=1e-3))
    (kept,) = read_laps(wall.folder / "laps", track="oval", car="f1tenth")
    assert kept.lap_time == pytest.approx(counted["lap_time"], abs=1e-3)
    assert len(kept.samples["x"]) > 100
    wall.post(control, command="mode", mode="ai")
    wall.post(control, command="stop")
    folder = wall.folder / "runs" / "drives" / run
    until(lambda: json.loads((folder / "manifest.json").read_text())["status"] == "finished")
    episodes = load_episodes(folder / "demonstration")
    assert sum(len(episode) for episode in episodes) > 100
    assert {(episode.driver, episode.information["track"]) for episode in episodes} == {("Script", "oval")}
    config = DemonstrationsConfig(_target_="it", sources=[str(folder / "demonstration")], batch_size=16)
    batch = DemonstrationsBuffer(config, read_description(folder / "demonstration").spec, 1).sample()
    assert torch.isfinite(torch.as_tensor(batch["reward"])).all()
    events = [json.loads(line)["event"] for line in (folder / "events.jsonl").read_text().splitlines()]
    assert {"lap", "control", "finished"} <= set(events)


async def reactions(opened, seen) -> list[float]:
    """Seconds from sending a pedal to the first snapshot in which it has moved, several times."""
    delays = []
    for brake in [0, 1, 0, 1, 0, 1, 0, 1]:
        sent = time.perf_counter()
        wanted = -1 if brake else 1
        while True:
            await opened.send(json.dumps({"type": "input", "steer": 0, "throttle": 1 - brake, "brake": brake}))
            await newest(opened, seen)
            if car_of(seen["snapshot"])[5] * wanted > 0:
                break
        delays.append(time.perf_counter() - sent)
        await asyncio.sleep(0.1)
    return delays


def test_hands_are_off_after_silence_and_turn_the_wheel_smoothly(monkeypatch):
    clock = [100.0]
    monkeypatch.setattr("paddock.racing.drive.drivers.time.monotonic", lambda: clock[0])
    hands = HumanInput(load_car("gt"))
    hands.update(1.0, 1.0, 0.0)
    first = hands.drive(1 / 60, 5.0, 0.0)
    assert 0.0 < first[0] < 0.3
    for _ in range(60):
        last = hands.drive(1 / 60, 5.0, 0.0)
    assert last.tolist() == [1.0, 1.0]
    clock[0] += SILENCE + 0.01
    assert hands.drive(1 / 60, 5.0, 0.0)[1] == 0.0, "the throttle is let go at once"
    hands.update(1.0, 1.0, 0.0)
    hands.release()
    assert hands.drive(1 / 60, 5.0, 0.0)[1] == 0.0
    hands.update(1.0, 0.0, 0.0)
    for _ in range(60):
        fast = hands.drive(1 / 60, 60.0, 0.0)
    assert fast[0] < 0.6, "at speed the keys do not turn the wheels further than the tyres can use"


@pytest.mark.parametrize("observation", ["lidar", "course", "lidar_progress"])
def test_a_policy_sees_in_a_session_what_it_saw_in_training(observation):
    """A world with three ticks a decision is the training's world, where both have the same substeps."""
    options = {"track": "oval", "observation": observation, "start": {"place": "grid", "lateral": 0.0, "heading": 0.0}}
    slow = RacingVectorEnv(1, config=racing_config(num_envs=1, control_rate=20.0, substeps=6, **options))
    fast = RacingVectorEnv(
        1, config=racing_config(num_envs=1, control_rate=60.0, substeps=2, **options), reading_stride=3
    )
    for env in (slow, fast):
        env.reset(seed=3)
    random = np.random.default_rng(5)
    last_actions = np.zeros((1, 2, 2), np.float32)
    for _ in range(40):
        action = random.uniform(-0.3, 1.0, (1, 2)).astype(np.float32)
        expected, *_ = slow.advance(action)
        for _ in range(3):
            fast.advance(action)
        last_actions = np.stack([action, last_actions[:, 0]], axis=1)
        seen = fast.observations.read(fast.readings, np.array([0]), last_actions)
        np.testing.assert_allclose(seen, expected, atol=2e-4)


@pytest.fixture
def policy(tmp_path):
    """An untrained policy of the racing experiment, saved."""
    from rich.console import Console

    from paddock.orchestration.launch import Request, new_run, resolve

    options = ["environment.substeps=6", "environment.num_envs=1", "workflow.rollout_steps=64",
               "workflow.minibatch_size=64", f"runs_dir={tmp_path}"]  # fmt: skip
    config, _ = resolve(Request("racing", overrides=options))
    folder = tmp_path / "saved"
    with new_run(config, Console(quiet=True)) as orchestrator:
        orchestrator.workflow.actor().save(folder, config.environment.to_dict())
    return folder


def test_a_policy_drives_in_a_session_as_it_drove_in_training(policy):
    grid = make_session(DriveRequest(track="oval", against=str(policy)))
    world_config = grid.env.config
    assert (grid.ticks_per_decision, world_config.control_rate, world_config.substeps) == (3, 60.0, 2)
    trained = RacingVectorEnv(
        1, config=world_config.model_copy(update={"control_rate": 20.0, "substeps": 6, "opponents": Opponents()})
    )
    start = {"s": 100.0, "lateral": 0.0, "heading_error": 0.0, "speed": 25.0}
    observation, _ = trained.reset(seed=1, options=start)
    grid.env.reset(seed=1, options=start)
    grid.pilot.restart()
    actor, command = load_actor(policy), np.zeros((1, 2), np.float32)
    for tick in range(90):
        command[0] = grid.pilot.drive(tick)
        grid.env.advance(command)
        if tick % 3 == 2:
            action, _ = actor.predict(observation)
            observation, *_ = trained.advance(action)
    places = [(float(env.world.x[0]), float(env.world.y[0])) for env in (grid.env, trained)]
    np.testing.assert_allclose(*places, atol=0.05)
    assert np.abs(command).max() > 0.0


def test_a_rival_with_another_car_is_refused(policy):
    with pytest.raises(InputError, match="was trained with the car 'gt', you chose 'road'"):
        make_session(DriveRequest(track="oval", car="road", against=str(policy)))


def test_modes_decide_who_drives(tmp_path):
    from paddock.racing.drive.session import DrivingSession, session_folder

    request = DriveRequest(track="oval", car="gt", runs_dir=tmp_path / "runs", laps_dir=tmp_path / "laps")
    session = DrivingSession(grid := make_session(request), session_folder(grid, request), request)
    session.begin()
    world = grid.env.world

    def metres(seconds: float) -> float:
        before = float(world.distance[0])
        for _ in range(int(seconds * 60)):
            session.tick()
        return float(world.distance[0]) - before

    assert metres(2.0) < 0.5, "nobody touches the pedals"
    session._set_mode(DriveMode("ai"))
    assert metres(3.0) > 10.0
    session._set_mode(DriveMode("assisted", 0.0))
    rolling = float(world.vx[0])
    metres(1.0)
    assert float(world.vx[0]) < rolling, "no help and no hands: it slows down"
    session._set_mode(DriveMode("assisted", 1.0))
    metres(40.0)
    assert session.status().laps == 1
    assert not (tmp_path / "laps").exists(), "a lap of the pilot is nobody's"
    kept = read_evaluation(drives_folder(session._run.path), 0).drives
    assert "you, assisted" in {drive.driver for drive in kept}, "but it can be shared"
    session.channel.close()


def test_a_stuck_opponent_is_put_back_on_the_road(tmp_path, monkeypatch):
    from paddock.racing.drive.session import DrivingSession, session_folder

    folders = {"runs_dir": tmp_path / "runs", "laps_dir": tmp_path / "laps"}
    request = DriveRequest(track="oval", car="gt", against="classical", mode="ai", **folders)
    session = DrivingSession(grid := make_session(request), run := session_folder(grid, request), request)
    session.begin()
    world, rival = grid.env.world, grid.rival
    with monkeypatch.context() as parked:
        parked.setattr(rival, "drive", lambda tick: np.zeros(2, np.float32))
        world.reset(np.array([False, True]), s=60.0, lateral=25.0, heading_error=2.0, speed=0.0)
        for _ in range(int(5.5 * 60)):
            session.tick()
        assert world.off_track[1]
        assert session._rescue.count == 0, "it gets some time"
        for _ in range(60):
            session.tick()
    assert session._rescue.count == 1
    assert not world.off_track[1]
    assert float(world.s[1]) == pytest.approx(60.0, abs=15.0)
    own, before = float(world.distance[0]), float(world.distance[1])
    for _ in range(8 * 60):
        session.tick()
    assert session._rescue.count == 1, "one that gets on is left alone"
    assert float(world.distance[1]) - before > 50.0
    assert float(world.distance[0]) > own, "the other car goes on"
    assert [row["event"] for row in run.event_lines()[0]].count("opponent_put_back") == 1
    session.channel.close()
