import numpy as np
import pytest
import torch

from paddock.buffers.rollout import RolloutBuffer, RolloutConfig
from paddock.core.specs import ArraySpec, Spec

SPEC = Spec(
    observation={"observation": ArraySpec(shape=(2,), dtype="float32")},
    action=ArraySpec(shape=(), dtype="int64", choices=3),
)


def make(steps=12, copies=3):
    return RolloutBuffer(RolloutConfig(_target_="it", steps=steps), SPEC, copies)


def transition(t, copies=3, ended=()):
    rows = np.asarray(ended, np.int64)
    step = {
        "observation": {"observation": np.full((copies, 2), t, np.float32)},
        "next_observation": {"observation": np.full((copies, 2), t + 1, np.float32)},
        "action": np.full(copies, t % 3),
        "reward": np.full(copies, float(t)),
        "terminated": np.isin(np.arange(copies), rows),
        "truncated": np.zeros(copies, bool),
        "valid": np.ones(copies, bool),
        "is_first": np.zeros(copies, bool),
    }
    if len(rows):
        step["final_rows"] = rows
        step["final_observation"] = {"observation": np.full((len(rows), 2), 100 + t, np.float32)}
    return step


def test_a_rollout_is_complete_in_order_and_used_once():
    buffer = make()
    for t in range(4):
        assert not buffer.can_sample()
        buffer.add(transition(t, ended=[1] if t == 2 else []))
    assert buffer.can_sample()
    batch = buffer.sample()
    assert batch["observation"]["observation"].shape == (5, 3, 2)
    assert batch["observation"]["observation"][:, 0, 0].tolist() == [0, 1, 2, 3, 4]
    assert batch["reward"][:, 2].tolist() == [0, 1, 2, 3]
    assert batch["final_index"].tolist() == [[2, 1]]
    assert batch["final_observation"]["observation"].tolist() == [[102, 102]]
    assert not buffer.can_sample()


def test_more_endings_than_copies_find_room():
    buffer = make(steps=60)
    for t in range(20):
        buffer.add(transition(t, ended=[0, 1, 2]))
    batch = buffer.sample()
    assert len(batch["final_index"]) == 60
    assert batch["final_observation"]["observation"][::3, 0].tolist() == [100 + t for t in range(20)]


@pytest.mark.parametrize("saved_at", [0, 1, 3, 4])
def test_a_half_filled_buffer_goes_on_from_its_state(saved_at):
    first, second = make(), make()
    for t in range(saved_at):
        first.add(transition(t, ended=[0] if t == 1 else []))
    second.set_state(first.get_state())
    for t in range(saved_at, 4):
        first.add(transition(t))
        second.add(transition(t))
    one, other = first.sample(), second.sample()
    assert one.keys() == other.keys()
    assert torch.equal(one["final_index"], other["final_index"])
    assert torch.equal(one["observation"]["observation"], other["observation"]["observation"])
    assert torch.equal(one["reward"], other["reward"])


def test_storage_is_allocated_once():
    buffer = make()
    before = buffer._arrays["reward"].ctypes.data
    for t in range(40):
        buffer.add(transition(t))
    assert buffer._arrays["reward"].ctypes.data == before


def test_rollout_row_that_add_gives_is_written_once_and_chains():
    """Handed back as the next observation, the row is what the naive way of copying every observation stores."""
    chained, copied = make(), make()
    row = None
    for t in range(10):
        step = transition(t, ended=[1] if t == 2 else [])
        copied.add(step)
        row = chained.add(step if row is None else {**step, "observation": row})
        assert row["observation"][0, 0] == t + 1
        if t in (3, 7):
            one, other = chained.sample(), copied.sample()
            assert torch.equal(one["observation"]["observation"], other["observation"]["observation"])
            assert torch.equal(one["final_observation"]["observation"], other["final_observation"]["observation"])
    assert np.shares_memory(row["observation"], chained._observation["observation"])


def test_rollout_row_of_another_source_replaces_the_one_that_followed():
    buffer = make()
    buffer.add(transition(0))
    buffer.mark_discontinuity()
    for t in (5, 6, 7):
        buffer.add(transition(t))
    batch = buffer.sample()
    assert batch["observation"]["observation"][:, 0, 0].tolist() == [0, 5, 6, 7, 8]
    assert batch["valid"][:, 0].tolist() == [False, True, True, True]
