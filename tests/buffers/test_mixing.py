"""Batches of which a share is demonstrations."""

import numpy as np
import pytest
import torch

from demonstration_cases import SPEC, make_episode, write_set
from paddock.buffers.demonstrations import DemonstrationsBuffer, DemonstrationsConfig
from paddock.buffers.mixing import draw_batch
from paddock.buffers.prioritized import PrioritizedBuffer, PrioritizedConfig
from paddock.buffers.sequence import SequenceBuffer, SequenceConfig
from paddock.buffers.uniform import UniformBuffer, UniformConfig
from paddock.core.errors import InputError


def fill(buffer, steps=40, copies=2):
    """Experience in which every reward is 100."""
    random = np.random.default_rng(0)

    def seen():
        return {
            "image": random.integers(0, 256, (copies, 4, 4, 3), np.uint8),
            "speed": random.normal(size=(copies, 2)).astype(np.float32),
        }

    observation = seen()
    for _ in range(steps):
        following = seen()
        flags = {name: np.zeros(copies, bool) for name in ("terminated", "truncated")}
        step = {"observation": observation, "next_observation": following, "valid": np.ones(copies, bool), **flags}
        buffer.add({**step, "action": np.zeros((copies, 2), np.float32), "reward": np.full(copies, 100, np.float32)})
        observation = following
    return buffer


def demonstrations(folder, share=0.5, **options):
    source = write_set(folder / "set", make_episode(20, 1), make_episode(15, 2))
    config = DemonstrationsConfig(_target_="it", sources=[str(source)], batch_size=16, share=share, **options)
    return DemonstrationsBuffer(config, SPEC, 2)


def test_a_share_of_a_batch_is_demonstrations(tmp_path):
    replay = fill(UniformBuffer(UniformConfig(_target_="it", capacity=100, batch_size=16), SPEC, 2))
    for share, expected in ((0.5, 8), (0.25, 4), (0.0, 0)):
        buffers = {"replay": replay, "demonstrations": demonstrations(tmp_path / str(share), share)}
        batch = draw_batch(buffers, "replay")
        assert int((batch["reward"] != 100).sum()) == expected
        assert batch["observation"]["image"].shape == batch["next_observation"]["image"].shape == (16, 4, 4, 3)
        assert (draw_batch(buffers, "demonstrations")["reward"] != 100).all()


def test_mixed_batches_are_the_same_from_the_same_random_state(tmp_path):
    buffers = {
        "replay": fill(UniformBuffer(UniformConfig(_target_="it", capacity=100, batch_size=16), SPEC, 2)),
        "demonstrations": demonstrations(tmp_path),
    }
    rewards = []
    for _ in range(2):
        torch.manual_seed(4)
        rewards.append(draw_batch(buffers, "replay")["reward"])
    assert torch.equal(*rewards)


def test_demonstrations_in_prioritized_batches_get_no_priority(tmp_path):
    config = PrioritizedConfig(_target_="it", capacity=100, batch_size=16, n_step=3, gamma=0.9)
    replay = fill(PrioritizedBuffer(config, SPEC, 2))
    buffers = {"replay": replay, "demonstrations": demonstrations(tmp_path, n_step=3, gamma=0.9)}
    batch = draw_batch(buffers, "replay")
    assert (batch["index"][:8] >= 0).all()
    assert (batch["index"][8:] == -1).all()
    assert batch["probability"][8:].tolist() == pytest.approx([1 / len(replay)] * 8)
    before = replay.get_state()["priority"].copy()
    replay.update_priorities(batch["index"], torch.full((16,), 7.0))
    changed = np.flatnonzero(before != replay.get_state()["priority"])
    assert set(changed) == set(batch["index"][:8].tolist())


def test_windows_of_replay_and_demonstrations_are_mixed(tmp_path):
    config = SequenceConfig(_target_="it", capacity=100, batch_size=16, length=5)
    buffers = {
        "replay": fill(SequenceBuffer(config, SPEC, 2)),
        "demonstrations": demonstrations(tmp_path, length=5, crosses_episodes=True),
    }
    batch = draw_batch(buffers, "replay")
    assert batch["reward"].shape == (16, 5)
    assert ((batch["reward"] == 100).sum(1) >= 4).sum() == 8


def test_buffers_that_do_not_fit_together_get_a_sentence(tmp_path):
    replay = fill(UniformBuffer(UniformConfig(_target_="it", capacity=100, batch_size=16), SPEC, 2))
    buffers = {"replay": replay, "demonstrations": demonstrations(tmp_path, n_step=3, gamma=0.9)}
    with pytest.raises(InputError, match="the same n_step, gamma and length"):
        draw_batch(buffers, "replay")
    buffers = {"replay": replay, "demonstrations": demonstrations(tmp_path / "more", 0.99)}
    with pytest.raises(InputError, match="lower their shares"):
        draw_batch(buffers, "replay")
