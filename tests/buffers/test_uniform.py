import numpy as np
import pytest
import torch

from paddock.buffers.uniform import UniformBuffer, UniformConfig
from paddock.core.specs import ArraySpec, Spec

SPEC = Spec(
    observation={"observation": ArraySpec(shape=(2,), dtype="float32")},
    action=ArraySpec(shape=(1,), dtype="float32", low=-1.0, high=1.0),
)


def make(capacity=40, copies=2, segment_steps=10):
    config = UniformConfig(_target_="it", capacity=capacity, batch_size=32, segment_steps=segment_steps)
    return UniformBuffer(config, SPEC, copies)


class Naive:
    """Every transition as its own record, in a plain list."""

    def __init__(self, capacity_rows):
        self.capacity_rows = capacity_rows
        self.rows = []

    def add(self, step):
        copies = len(step["reward"])
        following = step["next_observation"]["observation"].copy()
        if "final_rows" in step:
            following[step["final_rows"]] = step["final_observation"]["observation"]
        self.rows.append(
            [
                (step["observation"]["observation"][i].tolist(), following[i].tolist(), float(step["reward"][i]))
                for i in range(copies)
                if step["valid"][i]
            ]
        )
        self.rows = self.rows[-self.capacity_rows :]

    def transitions(self):
        return {(tuple(a), tuple(b), r) for row in self.rows for a, b, r in row}


def stream(count, copies=2, seed=0, start=None):
    """Random walks whose observations chain, with episodes that end now and then."""
    random = np.random.default_rng(seed)
    observation = random.random((copies, 2), np.float32) if start is None else start
    for _ in range(count):
        following = random.random((copies, 2), np.float32)
        ended = np.flatnonzero(random.random(copies) < 0.3)
        step = {
            "observation": {"observation": observation},
            "next_observation": {"observation": following},
            "action": random.random((copies, 1), np.float32),
            "reward": random.random(copies, np.float32),
            "terminated": np.isin(np.arange(copies), ended),
            "truncated": np.zeros(copies, bool),
            "valid": random.random(copies) < 0.9,
        }
        if len(ended):
            step["final_rows"] = ended
            step["final_observation"] = {"observation": random.random((len(ended), 2), np.float32)}
        yield step
        observation = following


def sampled(buffer, batches=40):
    found = set()
    for _ in range(batches):
        batch = buffer.sample()
        for before, after, reward in zip(
            batch["observation"]["observation"].tolist(),
            batch["next_observation"]["observation"].tolist(),
            batch["reward"].tolist(),
            strict=True,
        ):
            found.add((tuple(before), tuple(after), reward))
    return found


@pytest.mark.parametrize("count", [16, 20, 21, 57, 200])
def test_what_is_sampled_is_what_was_added_and_still_fits(count):
    buffer, naive = make(), Naive(20)
    for step in stream(count):
        buffer.add(step)
        naive.add(step)
    assert buffer.can_sample()
    torch.manual_seed(0)
    assert sampled(buffer) == naive.transitions()


def restored(buffer):
    copy = make()
    copy.set_state(buffer.get_state())
    for segment in buffer.segments():
        copy.load_segment(segment.read())
    return copy


@pytest.mark.parametrize("count", [3, 20, 33, 95])
def test_segments_hold_everything(count):
    buffer = make()
    for step in stream(count):
        buffer.add(step)
    copy = restored(buffer)
    rows = np.arange(buffer.oldest, buffer.total).repeat(2)
    copies = np.tile([0, 1], len(rows) // 2)
    one, other = buffer.gather(rows, copies), copy.gather(rows, copies)
    for name in ("observation", "next_observation"):
        assert torch.equal(one[name]["observation"], other[name]["observation"])
    assert torch.equal(one["reward"], other["reward"])


def test_a_sealed_segment_never_changes():
    buffer, seen = make(), {}
    for step in stream(60):
        buffer.add(step)
        for segment in buffer.segments():
            tree = segment.read()
            if segment.is_sealed and tree["start"] % 5 == 0 and len(tree["arrays"]["reward"]) == 5:
                content = tree["arrays"]["reward"].tobytes() + tree["observation"]["observation"].tobytes()
                assert seen.setdefault(segment.name, content) == content
    assert len(seen) > 5


def test_a_fence_parts_what_does_not_follow():
    buffer, naive = make(), Naive(20)
    for step in stream(8):
        buffer.add(step)
        naive.add(step)
    buffer.fence()
    for step in stream(8, seed=1):
        buffer.add(step)
        naive.add(step)
    torch.manual_seed(0)
    assert sampled(buffer) == naive.transitions()
