"""Prioritized replay of windows: which rows may begin one, how often they do, and that a resumed buffer draws alike."""

import numpy as np
import pytest
import torch

from paddock.buffers.prioritized_sequence import PrioritizedSequenceBuffer, PrioritizedSequenceConfig
from paddock.core.specs import ArraySpec, Spec

SPEC = Spec(
    observation={"observation": ArraySpec(shape=(1,), dtype="float32", low=-1.0, high=1.0)},
    action=ArraySpec(shape=(1,), dtype="float32", low=-1.0, high=1.0),
)


def make(num_envs=2, **changes):
    values = {"_target_": "x", "capacity": 60, "batch_size": 16, "length": 3, **changes}
    return PrioritizedSequenceBuffer(PrioritizedSequenceConfig.model_validate(values), SPEC, num_envs)


def fill(buffer, steps, episode=7, begin=0):
    """Copies count up; an episode of each ends after so many steps, at different times."""
    n = buffer.num_envs
    for t in range(begin, begin + steps):
        at = np.full((n, 1), t, np.float32)
        ended = (t + np.arange(n)) % episode == episode - 1
        done = np.flatnonzero(ended)
        buffer.add(
            {
                "observation": {"observation": at},
                "next_observation": {"observation": at + 1},
                "action": at / 100,
                "reward": at[:, 0],
                "terminated": ended,
                "truncated": np.zeros(n, bool),
                "valid": np.ones(n, bool),
                "final_rows": done,
                "final_observation": {"observation": (at + 0.5)[done]},
            }
        )


def possible(buffer):
    """Every start [K] of a whole window, by trying all."""
    found = set()
    for copy in range(buffer.num_envs):
        for start in range(int(buffer.oldest[copy]), int(buffer.totals[copy]) - buffer.config.length + 1):
            window = buffer.gather(np.array([copy]), np.array([start]), buffer.config.length)
            if buffer.config.crosses_episodes or not window["is_first"][0, 1:].any():
                found.add((copy, start))
    return found


@pytest.mark.parametrize("steps", [9, 70])
@pytest.mark.parametrize("crosses", [False, True])
def test_prioritized_sequences_begin_wherever_a_whole_window_does(steps, crosses):
    torch.manual_seed(0)
    buffer = make(crosses_episodes=crosses, batch_size=8)
    fill(buffer, steps)
    drawn = {tuple(index) for _ in range(300) for index in buffer.sample()["index"][:, 0].tolist()}
    assert drawn == possible(buffer)
    window = buffer.sample()
    assert window["reward"].shape == (8, 3)
    if not crosses:
        assert not window["is_first"][:, 1:].any()


def test_prioritized_sequences_come_in_proportion_to_their_errors():
    torch.manual_seed(0)
    buffer = make(alpha=0.6, eps=1e-6)
    fill(buffer, 25)
    leaves = buffer.sample(400)["leaf"].unique()
    buffer.update_priorities(leaves, torch.linspace(0, 3, len(leaves)))
    assert len(leaves) == len(possible(buffer))
    wanted = (torch.linspace(0, 3, len(leaves)) + 1e-6).pow(0.6)
    counts = torch.zeros(len(leaves))
    for _ in range(400):
        batch = buffer.sample()
        places = torch.searchsorted(leaves, batch["leaf"])
        counts += torch.bincount(places, minlength=len(leaves))
        assert torch.allclose(batch["probability"], wanted[places] / wanted.sum(), atol=1e-5)
    assert (counts / counts.sum() - wanted / wanted.sum()).abs().max() < 0.01
    fill(buffer, 1, begin=25)
    newest = buffer._tree[slice(None)].max()
    assert newest == pytest.approx(float(wanted.max()), rel=1e-5)


def test_prioritized_sequences_resume_bit_for_bit():
    first, second = make(), make()
    fill(first, 45)
    batch = first.sample()
    first.update_priorities(batch["leaf"], torch.rand(16))
    second.set_state(first.get_state())
    for segment in first.segments():
        second.load_segment(segment.read())
    torch.manual_seed(5)
    mine = first.sample()
    torch.manual_seed(5)
    theirs = second.sample()
    assert torch.equal(mine["leaf"], theirs["leaf"])
    assert torch.equal(mine["probability"], theirs["probability"])
    assert torch.equal(mine["observation"]["observation"], theirs["observation"]["observation"])
