"""Corrections (DAgger): a person takes over a driving policy and gives it back; marks, data, learning. The teacher."""

import time

import numpy as np
import pytest
import torch

from paddock.buffers.demonstrations import load_episodes
from paddock.control.messages import DriveMode
from paddock.racing.demonstrator import ClassicalDemonstratorConfig, demonstrate
from paddock.racing.drive.session import DrivingSession, session_folder
from paddock.racing.drive.setup import DriveRequest, make_session
from paddock.racing.env.config import racing_config
from paddock.racing.env.vector import RacingVectorEnv
from paddock.racing.laps.classical import ClassicalAtTheWheel
from paddock.rollout.actor import load_policy
from quiet_runs import quiet_run

TINY = [
    "environment.track=oval", "environment.num_envs=2", "components.policy.network.width=16",
    "components.policy.network.blocks=1", "buffers.demonstrations.demonstrator.laps=1",
    "buffers.demonstrations.validation=0.0", "buffers.demonstrations.batch_size=16",
]  # fmt: skip


@pytest.fixture
def policy(tmp_path):
    """A cloned policy that has hardly learned, saved."""
    orchestrator = quiet_run(
        tmp_path / "cloned", "bc_racing", *TINY, "workflow.updates=3", "workflow.warmup_updates=1",
        "training.phases.clone.workflow_hooks.evaluate=null",
    )  # fmt: skip
    assert orchestrator.run().status == "finished"
    return orchestrator.run_folder.path / "policy" / "latest"


@pytest.fixture
def session(policy, tmp_path):
    request = DriveRequest(against=str(policy), mode="ai", runs_dir=tmp_path / "runs", laps_dir=tmp_path / "laps")
    opened = DrivingSession(grid := make_session(request), session_folder(grid, request), request)
    opened.begin()
    yield opened
    opened.channel.close()


def ticks(session, seconds):
    for _ in range(round(seconds * 60)):
        session.tick()


def test_corrections_are_marked_become_data_and_are_learned(session, policy):
    """Only what was driven by hand after the policy had the wheel is a correction."""
    before = {name: value.clone() for name, value in session._grid.pilot.actor.state_dict().items()}
    ticks(session, 3.0)
    session._set_mode(DriveMode("manual"))
    for _ in range(120):  # A person at the wheel: full throttle, some steer.
        session.input(Input(steer=0.2, throttle=1.0))
        session.tick()
    found = session.status().corrections
    assert (found.stretches, found.is_learning) == (0, False)  # not given back yet
    session._set_mode(DriveMode("ai"))
    assert session.status().corrections.stretches == 1
    give_up = time.monotonic() + 60
    while session.status().corrections.is_learning and time.monotonic() < give_up:
        session.tick()
        time.sleep(0.01)
    found = session.status().corrections
    assert found.updates > 0
    assert found.error_after < 0.5 * found.error_before
    (episode,) = load_episodes(session._run.path / "demonstration")
    assert episode.marks["is_intervention"].all()
    assert len(episode) == found.steps
    assert 30 <= len(episode) <= 40  # 2 s at 20 decisions a second
    assert episode.actions[10:, 0].mean() > 0.05  # the person's steer
    after = session._grid.pilot.actor.state_dict()
    assert any(not torch.equal(before[name], after[name]) for name in before)
    saved = load_policy(session._run.path / "policy" / "corrected").state_dict()
    assert all(torch.equal(saved[name], after[name]) for name in after)
    assert any(event["event"] == "correction" for event in session._run.read_events())


class Input:
    """An input of a person, as the channel gives it."""

    is_released, brake = False, 0.0

    def __init__(self, steer, throttle):
        self.steer, self.throttle = steer, throttle


def test_driving_by_hand_from_the_start_is_no_correction(session):
    session._set_mode(DriveMode("assisted", 0.5))
    session._set_mode(DriveMode("manual"))
    for _ in range(120):
        session.input(Input(steer=0.0, throttle=1.0))
        session.tick()
    session._set_mode(DriveMode("ai"))
    assert session.status().corrections.stretches == 0
    (episode,) = load_episodes(session._run.path / "demonstration")
    assert "is_intervention" not in episode.marks


@pytest.mark.parametrize("action", ["steer_throttle", "gas_brake_steer", "discrete"])
def test_teacher_action_is_what_the_classical_driver_would_do(action):
    env = RacingVectorEnv(3, config=racing_config(num_envs=3, track="oval", teacher=True, action=action))
    observation, _ = env.reset(seed=1)
    driver = ClassicalAtTheWheel(env)
    for _ in range(20):
        assert env.observation_space.contains(observation)
        wanted = env._actions.encode(driver.act(observation, env.world))
        taught = observation["teacher_action"]
        if action == "gas_brake_steer":  # Policies act in [-1, 1].
            taught = taught * [0.5, 0.5, 1.0] + [0.5, 0.5, 0.0]
        np.testing.assert_allclose(taught, wanted, atol=1e-6)
        observation, *_ = env.step(np.asarray(wanted))
    assert (env.world.vx > 3).all()


def test_classical_demonstrator_gives_whole_laps_with_labels_beside_the_noise():
    environment = racing_config(num_envs=1, track="oval", observation="course")
    config = ClassicalDemonstratorConfig(_target_="paddock.x", environment=environment, laps=2, noise=0.05, seed=3)
    first, again = (list(demonstrate(config, None)) for _ in range(2))
    assert len(first) == 2
    for one, other in zip(first, again, strict=True):
        assert np.array_equal(one["actions"], other["actions"])
        assert len(one["observations"]["observation"]) == len(one["actions"]) + 1
        assert 0.01 < np.abs(one["actions"] - one["labels"]).mean() < 0.1
        assert one["marks"]["corrected"].all()


def test_dagger_collects_by_turns_and_learns_what_the_teacher_would_do(tmp_path):
    run = quiet_run(
        tmp_path, "bc_dagger_racing", *TINY, "training.phases.clone=null", "buffers.demonstrations.demonstrator=null",
        "training.phases.correct.duration_steps=120", "training.phases.correct.workflow_hooks.evaluate=null",
    )  # fmt: skip
    assert run.run().status == "finished"
    assert run.counters.agent_steps == 120
    assert run.counters.updates == 15  # one for eight steps
    buffer = run.context.buffers["demonstrations"]
    batch = buffer.sample(64)
    assert set(batch["observation"]) == {"observation"}
    rows = buffer._collected.read(np.array(0), np.arange(50))
    by_teacher = np.isclose(rows["action"], rows["observation.teacher_action"]).all(1)
    assert 0 < by_teacher.sum() < 50  # by turns
    assert run.workflow.actor().reads == ["observation", "teacher_action"]
