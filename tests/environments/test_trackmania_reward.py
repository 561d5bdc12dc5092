"""Rewards along a trajectory: TMRL's published vectors, and what the net rule promises."""

import numpy as np
import pytest

from paddock.core.errors import InputError
from paddock.environments.trackmania.packets import Packet
from paddock.environments.trackmania.reward import COMBINATIONS, TrackManiaRewardConfig, TrajectoryReward, target_speeds
from paddock.environments.trackmania.trajectory import Trajectory

STRAIGHT = Trajectory(np.stack([np.arange(2001) / 10, np.full(2001, 10.0), np.zeros(2001)], axis=1))


def packet(x, z=0.0, speed=20.0, finished=False):
    return Packet(1, 0, speed, 0.0, (x, 10.0, z), 0.0, 1.0, 0.0, finished, 1.0, 5_000.0)


def reward_of(**options):
    return TrajectoryReward(STRAIGHT, TrackManiaRewardConfig(**options), step_time=0.05)


def drive(reward, places):
    reward.reset()
    steps = [reward.step(packet(x)) for x in places]
    return [step.reward for step in steps], steps


@pytest.mark.parametrize(
    ("places", "rewards", "indices"),
    [
        ((2, 4, 6), (0.2, 0.2, 0.2), (20, 40, 60)),
        ((10, 9.5, 9.0, 10, 12), (1.0, 0, 0, 0.1, 0.2), (100, 95, 90, 100, 120)),
        ((10, 5, 10), (1.0, 0, 0.5), (100, 50, 100)),
        ((0, 60), (0, 6.0), (0, 600)),
        ((0, 120), (0, 12.0), (0, 1200)),
        ((199, 200, 205, 260), (19.9, 0.1, 0, 0), (1990, 2000, 2000, 2000)),
    ],
)
def test_trackmania_exact_gives_the_published_vectors(places, rewards, indices):
    reward = reward_of(rule="trackmania_exact")
    for place, expected, index in zip(places, rewards, indices, strict=True):
        assert reward.step(packet(place)).reward == float(np.float32(expected))
        assert round(reward.share * len(STRAIGHT)) == index


def test_trackmania_exact_stray_limit():
    reward = reward_of(rule="trackmania_exact")
    assert reward.step(packet(5, z=99)).reward == 0.5
    reward.reset()
    step = reward.step(packet(5, z=101))
    assert (step.reward, step.share, step.is_lost) == (0.0, 0.0, True)


def test_trackmania_exact_fails_a_standing_car_at_step_81():
    _, steps = drive(reward_of(rule="trackmania_exact"), [3] * 81)
    assert [step.has_failed for step in steps].index(True) == 80


def test_trackmania_exact_pays_for_driving_to_and_fro_as_published():
    rewards, steps = drive(reward_of(rule="trackmania_exact"), [15, 10] * 100)
    assert sum(rewards) == pytest.approx(51.0)
    assert not any(step.has_failed for step in steps)


def test_trackmania_finish_and_constant_penalty():
    reward = reward_of(rule="trackmania_exact", end_of_track=50.0, constant_penalty=-0.25)
    assert reward.step(packet(1)).reward == np.float32(0.1 - 0.25)
    assert reward.step(packet(2, finished=True)).reward == np.float32(0.1 + 50.0 - 0.25)


@pytest.mark.parametrize("combination", ["path", "path_speed", "path_collision", "all"])
def test_trackmania_net_reward_pays_nothing_for_driving_to_and_fro(combination):
    reward = reward_of(combination=combination, min_steps=10_000)
    rewards, _ = drive(reward, [0, *[15, 10] * 100, 0])
    assert sum(rewards) <= 1e-6
    rewards, steps = drive(reward_of(combination=combination), [15, 10] * 100)
    assert any(step.has_failed for step in steps)  # No new furthest point.


def test_trackmania_net_progress_is_what_tmrl_pays_for_driving_on():
    places = np.arange(0, 200, 1.7)
    assert drive(reward_of(), places)[0] == drive(reward_of(rule="trackmania_exact"), places)[0]


def test_trackmania_net_rule_has_limits_that_hold():
    reward = reward_of()
    reward.step(packet(0))
    assert reward.step(packet(120)).reward == pytest.approx(5.0)  # 50 m at most, not 12
    reward.reset()
    step = reward.step(packet(5, z=101))
    assert (step.reward, step.is_lost) == (0.0, True)


def test_trackmania_terms_weigh_speed_collisions_and_time():
    slow, fast = reward_of(combination="path_speed"), reward_of(combination="path_speed")
    assert fast.step(packet(2, speed=80)).reward > slow.step(packet(2, speed=20)).reward
    hit = reward_of(combination="path_collision")
    hit.step(packet(2, speed=40))
    assert hit.step(packet(4, speed=30)).terms["collision"] == -1.0  # 10 m/s in 50 ms
    assert hit.step(packet(6, speed=29)).terms["collision"] == 0.0
    assert hit.step(packet(8, speed=29), has_rumbled=True).terms["collision"] == -1.0
    assert reward_of(combination="time_optimal").step(packet(0)).terms["time_pressure"] == pytest.approx(-0.05)


def test_trackmania_potentials_pay_back_what_they_gave():
    reward = reward_of(combination="racing_line", weights={"progress": 0.0})
    steps = [reward.step(packet(20, z=z, speed=v)) for z, v in ((6, 20), (0, 60), (3, 90), (6, 20))]
    assert steps[1].reward > 0.5
    assert sum(step.reward for step in steps) == pytest.approx(0.0, abs=1e-5)


def test_trackmania_target_speed_follows_the_curvature():
    angle = np.arange(0, np.pi, 0.1 / 30)
    bend = np.stack([200 + 30 * np.sin(angle), np.full_like(angle, 10.0), 30 - 30 * np.cos(angle)], axis=1)
    target = target_speeds(Trajectory(np.concatenate([STRAIGHT.points[:-1], bend])))
    assert target[2400] == pytest.approx(np.sqrt(30 * 30), rel=0.05)
    assert target[0] > target[1500] > target[1950] > 29  # Braking begins before the bend.


def test_trackmania_reward_weights_change_while_it_runs():
    reward = reward_of()
    reward.set_weight("progress", 0.0)
    assert reward.step(packet(10)).reward == 0.0
    with pytest.raises(InputError, match="unknown reward term 'progres'"):
        reward.set_weight("progres", 1.0)
    with pytest.raises(InputError, match="0 or more"):
        reward.set_weight("speed", -1.0)
    assert all(set(weights) <= set(reward.weights) for weights in COMBINATIONS.values())
