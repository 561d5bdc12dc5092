"""What policies drove, kept at evaluation: small files, thinned out, and read as files from elsewhere."""

import json
import os

import numpy as np
import pytest

from paddock.core.reading import DamagedError
from paddock.core.results import drives_folder
from paddock.racing.env.vector import RacingVectorEnv
from paddock.racing.laps import archive
from paddock.racing.laps.archive import keep_drives, kept_steps, read_evaluation, read_road
from paddock.racing.laps.classical import ClassicalAtTheWheel, without_agent
from paddock.racing.laps.drive import drive_laps, evaluation_config
from paddock.racing.laps.replays import Drive
from paddock.racing.laps.traces import LapTracer
from paddock.racing.view import drawn_road
from paddock.sim.cars.car import load_car
from paddock.sim.reference.lap import reference_lap
from paddock.sim.tracks.sources import load_track


def road():
    track = load_track("oval")
    return drawn_road(track, "gt", load_car("gt"), reference_lap(track, "gt"))


def drive(lap_time: float | None = 30.0, duration: float = 30.0) -> Drive:
    time = np.linspace(0.0, duration, 50)
    samples = {"time": time, "x": 200 * np.cos(time), "y": 200 * np.sin(time)}
    return Drive("agent", "agent", lap_time, duration, samples, (10.0, 20.0))


def test_drives_are_kept_small_and_come_back(tmp_path):
    keep_drives(tmp_path, 5_000, [(road(), drive())], kept=())
    keep_drives(tmp_path, 9_000, [(road(), drive(None, 12.0))], kept=())
    assert kept_steps(tmp_path) == [5_000, 9_000]
    assert len(list(tmp_path.glob("road-*.json"))) == 1, "the road is kept once"
    assert (tmp_path / "step-000000005000.json").stat().st_size < 10_000
    (first,) = read_evaluation(tmp_path, 5_000).drives
    assert (first.track, first.lap_time, first.duration, first.sectors) == ("oval", 30.0, 30.0, [10.0, 20.0])
    assert first.x[100] == pytest.approx(np.interp(10.0, *(drive().samples[name] for name in ("time", "x"))), abs=0.01)
    assert read_evaluation(tmp_path, 9_000).drives[0].lap_time is None
    assert read_road(tmp_path, first.road).track.name == "oval"


def test_too_many_drives_are_thinned_out_and_those_of_kept_policies_stay(tmp_path, monkeypatch):
    monkeypatch.setattr(archive, "MOST_KEPT", 6)
    place = road()
    for step in range(100, 1_300, 100):
        keep_drives(tmp_path, step, [(place, drive(duration=1.0))], kept={"step-000000000300"})
    steps = kept_steps(tmp_path)
    assert len(steps) == 6
    assert {100, 300, 1_200} <= set(steps), "the first, the last, and that of the policy"


@pytest.mark.parametrize(
    "damage",
    [
        {"x": [0.0, 1.0]},
        {"dt": 1e-9},
        {"duration": 1e9},
        {"road": "../../etc/passwd"},
        {"heading": "north"},
        {"driver": "x" * 5_000},
    ],
)
def test_a_drive_from_elsewhere_that_does_not_fit_is_refused(tmp_path, damage):
    keep_drives(tmp_path, 1, [(road(), drive())], kept=())
    file = tmp_path / "step-000000000001.json"
    values = json.loads(file.read_text())
    values["drives"][0] |= damage
    file.write_text(json.dumps(values))
    with pytest.raises(DamagedError):
        read_evaluation(tmp_path, 1)


def test_drives_that_are_links_or_endless_are_refused(tmp_path):
    (tmp_path / "step-000000000001.json").symlink_to("/etc/passwd")
    os.mkfifo(tmp_path / "step-000000000002.json")
    (tmp_path / "step-000000000003.json").write_text("[" * 100_000)
    for step in (1, 2, 3):
        with pytest.raises(DamagedError):
            read_evaluation(tmp_path, step)


def test_an_evaluation_gives_the_best_lap_or_the_longest_way():
    config = without_agent(evaluation_config(RacingVectorEnv(1, track="oval")))
    env = RacingVectorEnv(3, config=config)
    tracer, pilot = LapTracer(env), ClassicalAtTheWheel(env)
    laps = drive_laps(env, pilot, seed=1, watch=tracer)
    ((index, best),) = tracer.drives(laps)
    assert index == 0
    assert best.lap_time == pytest.approx(float(np.nanmin(laps.lap_time)))

    class Lazy:
        """Drives for two seconds, the second car for four, then stands."""

        steps = 0

        def act(self, observation, world):
            self.steps += 1
            seconds = self.steps / env.config.control_rate
            action = pilot.act(observation, world)
            action[:, 1] = np.where(seconds < np.array([2.0, 4.0, 2.0]), np.abs(action[:, 1]), -1.0)
            return action

    tracer = LapTracer(env)
    laps = drive_laps(env, Lazy(), seed=1, watch=tracer)
    assert not laps.finished.any()
    ((_, way),) = tracer.drives(laps)
    assert way.lap_time is None
    start = np.array([way.samples["s"][0], way.samples["s"][-1]])
    assert float(np.diff(start)[0] % env.world.tracks[0].length) == pytest.approx(float(laps.distance.max()), abs=2.0)


def test_a_racing_run_keeps_what_its_policies_drove(prepared):
    options = ["environment.num_envs=4", "environment.track=oval", "workflow.rollout_steps=64", "evaluation.episodes=2"]
    options += ["workflow.minibatch_size=64", "workflow.epochs=1", "training.total_steps=256"]
    orchestrator = prepared("racing", *options)
    orchestrator.run()
    folder = drives_folder(orchestrator.run_folder.path)
    (steps, *_) = kept_steps(folder)
    (one,) = read_evaluation(folder, steps).drives
    assert one.track == "oval"
    assert len(one.x) > 5
