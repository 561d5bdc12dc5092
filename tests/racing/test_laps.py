import numpy as np
import pytest
import torch

from paddock.core.errors import InputError
from paddock.environments.gym import GymConfig
from paddock.environments.gym import make as make_gym
from paddock.environments.spaces import spec_of
from paddock.racing.env.config import racing_config
from paddock.racing.env.vector import RacingVectorEnv
from paddock.racing.laps.classical import ClassicalAtTheWheel, classical_lap
from paddock.racing.laps.drive import drive_laps, evaluation_config, spread_starts
from paddock.racing.laps.evaluator import LapEvaluator, LapEvaluatorConfig
from paddock.racing.laps.records import Recorder
from paddock.rollout.actor import RandomActor, RandomActorConfig
from paddock.sim.reference.classical_laps import classical_laps
from paddock.sim.tracks.sources import load_track

OPTIONS = {"track": ["oval", "meadow"], "car": "gt", "observation": "course"}


def make_env(copies, render_mode=None):
    return RacingVectorEnv(copies, render_mode, **OPTIONS)


@pytest.fixture(scope="module")
def driven():
    """Six starts of the classical driver on two tracks, with their laps recorded."""
    env = RacingVectorEnv(6, config=evaluation_config(make_env(1)))
    recorder = Recorder(slice(None))
    return env, drive_laps(env, ClassicalAtTheWheel(env), seed=3, watch=recorder), recorder


def test_starts_are_spread_evenly_over_each_track():
    start = spread_starts(np.array([0, 1, 0, 1, 0, 0]), np.array([100.0, 60.0]))
    assert start.tolist() == [12.5, 15.0, 37.5, 45.0, 62.5, 87.5]


def test_laps_of_the_classical_driver_are_what_the_simulator_says(driven):
    _, laps, _ = driven
    assert laps.finished.all()
    assert laps.track == ["oval", "meadow"] * 3
    expected = {lap.track: lap for lap in classical_laps([load_track("oval"), load_track("meadow")], "gt")}
    for track in ("oval", "meadow"):
        mine = laps.of_track(track)
        assert mine.lap_time.min() == pytest.approx(expected[track].lap_time, rel=0.01)
        assert mine.reference == pytest.approx(expected[track].reference_time)
        assert mine.sectors.sum(axis=1) == pytest.approx(mine.lap_time)
    found = laps.metrics()
    assert found["eval/finish_rate"] == 1.0
    assert found["eval/off_track"] == 0.0
    assert found["eval/pace"] == pytest.approx((1.0 / laps.ratio).mean())
    deltas = sum(found[f"eval/sector_{k}_delta"] for k in (1, 2, 3))
    assert deltas == pytest.approx((laps.lap_time - laps.reference).mean(), abs=1e-6)


class DriftingDriver:
    """The classical driver, but it leaves the road once with some of its cars: in their out lap, or in their lap."""

    def __init__(self, env, *, out, flying):
        self.driver, self.out, self.flying = ClassicalAtTheWheel(env), out, flying

    def act(self, observation, world):
        action = np.array(self.driver.act(observation, world))
        is_out = world.lap_kind == 0
        self.out &= ~(is_out & (world.wheels_off > 0))
        self.flying &= ~(~is_out & (world.wheels_off > 0))
        action[(world.steps > 20) & ((self.out & is_out) | (self.flying & ~is_out))] = [1.0, 0.3]
        return action


def test_a_clean_lap_has_all_wheels_on_the_road_from_line_to_line():
    env = RacingVectorEnv(6, config=evaluation_config(make_env(1), track="oval"))
    out, flying = np.array([1, 1, 0, 0, 0, 0], bool), np.array([0, 0, 0, 0, 1, 1], bool)
    seen = []

    def watch(world, driving):
        seen.append((world.lap_kind.copy(), world.wheels_off > 0, world.lap_rejected.copy(), driving.copy()))

    laps = drive_laps(env, DriftingDriver(env, out=out, flying=flying), seed=3, watch=watch)
    before = np.zeros(6, int)  # of the lap that a step began in
    dirty = np.zeros(6, bool)
    for kind, is_off, is_rejected, driving in seen:
        dirty |= is_off & driving & (before != 0)
        dirty &= ~(is_rejected & driving)  # The lap after one that does not count.
        before = kind
    assert laps.clean.tolist() == (~dirty).tolist()
    assert laps.clean[:4].all()
    assert not laps.clean[5]
    assert (laps.wheels_off > 0).tolist() == [True, True, False, False, True, True]
    found = laps.metrics()
    assert found["eval/clean_rate"] == pytest.approx((laps.finished & laps.clean).mean())
    assert found["eval/clean_ratio"] == laps.ratio[laps.finished & laps.clean].min()
    finished = zip(1.0 / laps.ratio[laps.finished], laps.clean[laps.finished], strict=True)
    counted = sum(pace if is_clean else 0.5 * pace for pace, is_clean in finished)
    assert found["eval/clean_pace"] == pytest.approx(counted / len(laps.track))


def test_the_table_has_a_row_a_track_and_one_for_all(driven):
    rows = driven[1].table()
    assert [row["track"] for row in rows] == ["oval", "meadow", "all"]
    assert rows[0]["finished"] == "3/3"
    assert len(driven[1].details()["starts"]) == 6


def test_a_recorded_lap_runs_from_line_to_line(driven):
    env, laps, recorder = driven
    lap = recorder.lap(1, driver="it", track="meadow", car_name="gt")
    assert lap.lap_time == laps.lap_time[1]
    time, s = lap.samples["time"], lap.samples["s"]
    assert 0 < time[0] <= 0.05
    assert lap.lap_time - 0.05 <= time[-1] <= lap.lap_time
    assert (np.diff(s) > 0).all()
    length = env.world.tracks[1].length
    along = lap.along("time", np.array([0.0, 0.5 * length, length]), length)
    assert along[0] == 0.0
    assert along[2] == lap.lap_time
    assert 0.3 < along[1] / lap.lap_time < 0.7


def test_who_never_moves_does_not_finish():
    env = RacingVectorEnv(3, config=evaluation_config(make_env(1)))

    class Parked:
        def act(self, observation, world):
            return np.zeros((3, 2), dtype=np.float32)

    laps = drive_laps(env, Parked(), seed=1)
    found = laps.metrics()
    assert found["eval/finish_rate"] == found["eval/pace"] == 0.0
    assert "eval/best_lap" not in found
    assert laps.table()[-1]["best lap"] == ""


def test_lap_evaluation_is_repeatable_and_leaves_training_alone():
    spec = spec_of(make_env(1))
    actor = RandomActor(RandomActorConfig(_target_="it"), {}, spec)
    evaluator = LapEvaluator(LapEvaluatorConfig(_target_="it", track="oval"))
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    first = evaluator(actor, make_env, episodes=3, seed=7, deterministic=True)
    assert torch.equal(torch.rand(3), expected)
    again = evaluator(actor, make_env, episodes=3, seed=7, deterministic=True)
    assert first.track == ["oval"] * 3
    assert first.distance.tolist() == again.distance.tolist()


def test_a_video_of_a_policy_in_training_leaves_it_in_training_mode(tmp_path):
    def make_short(copies, render_mode=None):
        return RacingVectorEnv(copies, render_mode, max_episode_steps=3, **OPTIONS)

    actor = RandomActor(RandomActorConfig(_target_="it"), {}, spec_of(make_short(1)))
    actor.steady = torch.nn.Dropout().eval()
    actor.learning = torch.nn.Dropout().train()
    actor.training = True
    torch.manual_seed(3)
    state = torch.get_rng_state()
    evaluator = LapEvaluator(LapEvaluatorConfig(_target_="it", track="oval"))
    file = tmp_path / "lap.mp4"
    assert evaluator.record_video(actor, make_short, file, seed=1) > 0
    assert file.is_file()
    assert (actor.training, actor.learning.training, actor.steady.training) == (True, True, False)
    assert torch.get_rng_state().equal(state)


def test_the_lap_evaluator_may_choose_unseen_procedural_tracks():
    evaluator = LapEvaluator(LapEvaluatorConfig(_target_="it", procedural=2, procedural_seed=40))
    env = evaluator._environment(make_env, 4)
    assert [track.name for track in env.world.tracks] == ["procedural:40", "procedural:41"]


def test_laps_in_another_environment_are_an_error():
    config = GymConfig(_target_="it", id="CartPole-v1", num_envs=1)
    with pytest.raises(InputError, match="racing environment only"):
        evaluation_config(make_gym(config, 1))


def test_a_ghost_for_any_track_of_the_environment():
    lap = classical_lap(evaluation_config(make_env(1)), 0)
    assert lap is not None
    assert lap.track == "oval"
    assert racing_config(**OPTIONS).car == lap.car
