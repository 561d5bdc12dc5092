import av
import numpy as np
import pytest
import torch

from paddock.environments.gym import GymConfig, make
from paddock.environments.spaces import spec_of
from paddock.evaluation.evaluator import evaluate, record_video
from paddock.render.video import write_video
from paddock.rollout.actor import RandomActor, RandomActorConfig


def maker(vectorization="sync", limit=40):
    settings = GymConfig(
        _target_="it",
        id="CartPole-v1",
        num_envs=1,
        vectorization=vectorization,
        max_episode_steps=limit,
    )
    return lambda copies, render_mode: make(settings, copies, render_mode)


def random_actor():
    return RandomActor(RandomActorConfig(_target_="it"), {}, spec_of(maker()(1, None)))


@pytest.mark.parametrize("vectorization", ["sync", "custom"])
@pytest.mark.parametrize("episodes", [1, 5, 70])
def test_as_many_episodes_as_asked_for_each_whole(vectorization, episodes):
    result = evaluate(random_actor(), maker(vectorization), episodes=episodes, seed=3, deterministic=False)
    assert len(result.returns) == len(result.lengths) == episodes
    assert np.array_equal(result.returns, result.lengths)
    assert result.lengths.max() <= 40


def test_the_same_seed_gives_the_same_episodes_and_training_randomness_is_untouched():
    before = torch.get_rng_state()
    first = evaluate(random_actor(), maker(), episodes=6, seed=3, deterministic=False)
    assert torch.equal(torch.get_rng_state(), before)
    torch.rand(5)
    second = evaluate(random_actor(), maker(), episodes=6, seed=3, deterministic=False)
    other = evaluate(random_actor(), maker(), episodes=6, seed=4, deterministic=False)
    assert np.array_equal(first.returns, second.returns)
    assert not np.array_equal(first.returns, other.returns)


def test_short_episodes_are_not_counted_more_often():
    """With 70 episodes on 64 copies, every copy's first episode counts, however long it takes."""
    many = evaluate(random_actor(), maker(limit=500), episodes=64, seed=3, deterministic=False)
    more = evaluate(random_actor(), maker(limit=500), episodes=70, seed=3, deterministic=False)
    assert set(many.returns) <= set(more.returns)


def test_a_video_can_be_played(tmp_path):
    file = tmp_path / "videos" / "episode.mp4"
    count = record_video(random_actor(), maker(), file, seed=3)
    with av.open(str(file)) as container:
        frames = [frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)]
    assert len(frames) == count > 5
    assert frames[0].shape == (400, 600, 3)
    assert not np.array_equal(frames[0], frames[-1])


def test_frames_with_odd_sides_can_be_encoded(tmp_path):
    frames = (np.full((33, 47, 3), value, np.uint8) for value in range(5))
    assert write_video(tmp_path / "odd.mp4", frames, frames_per_second=29.97) == 5
