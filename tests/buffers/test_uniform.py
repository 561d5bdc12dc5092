import numpy as np
import pytest
import torch

from paddock.buffers.uniform import UniformBuffer, UniformConfig
from paddock.components.return_computers.bootstrap import bootstrap_weight
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


def test_segments_of_a_restored_buffer_are_the_same_bit_by_bit():
    """Also where last observations of episodes were forgotten before: their numbers begin anew in the copy."""
    buffer = make()
    for step in stream(95):
        buffer.add(step)
    one, other = ({each.name: each.read() for each in source.segments()} for source in (buffer, restored(buffer)))
    assert one.keys() == other.keys()
    for name, tree in one.items():
        for key, array in tree["arrays"].items():
            assert array.tobytes() == other[name]["arrays"][key].tobytes(), f"{name} {key}"
        assert (tree["arrays"]["final"] >= 0).any()


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
    buffer.mark_discontinuity()
    for step in stream(8, seed=1):
        buffer.add(step)
        naive.add(step)
    torch.manual_seed(0)
    assert sampled(buffer) == naive.transitions()


class NaiveNStep:
    """Every copy's own list of steps, walked one by one."""

    def __init__(self, n_step, gamma):
        self.n_step, self.gamma = n_step, gamma
        self.steps = []

    def add(self, step):
        self.steps.append(step)

    def mark_discontinuity(self):
        self.steps.append(None)

    def transitions(self, copies):
        found = set()
        for start, copy in [(s, c) for s in range(len(self.steps)) for c in range(copies)]:
            if self.steps[start] is None or not self.steps[start]["valid"][copy]:
                continue
            reward, position = 0.0, start
            while True:
                step = self.steps[position]
                reward += self.gamma ** (position - start) * float(step["reward"][copy])
                ended = step["terminated"][copy] or step["truncated"][copy]
                following = self.steps[position + 1] if position + 1 < len(self.steps) else None
                is_blocked = following is None or not following["valid"][copy]
                if ended or is_blocked or position - start + 1 == self.n_step:
                    break
                position += 1
            after = step["next_observation"]["observation"][copy]
            if "final_rows" in step and copy in step["final_rows"]:
                after = step["final_observation"]["observation"][list(step["final_rows"]).index(copy)]
            before = self.steps[start]["observation"]["observation"][copy]
            found.add(
                (
                    tuple(before.tolist()),
                    tuple(after.tolist()),
                    round(reward, 4),
                    position - start + 1,
                    bool(step["terminated"][copy]),
                )
            )
        return found


@pytest.mark.parametrize("n_step", [2, 3, 5])
def test_n_step_transitions_equal_those_of_a_plain_walk(n_step):
    config = UniformConfig(_target_="it", capacity=200, batch_size=32, n_step=n_step, gamma=0.9)
    buffer, naive = UniformBuffer(config, SPEC, 2), NaiveNStep(n_step, 0.9)
    for part, seed in enumerate([0, 1]):
        for index, step in enumerate(stream(25, seed=seed)):
            step["truncated"] = step["terminated"] & (index % 2 == 0)
            step["terminated"] = step["terminated"] & ~step["truncated"]
            buffer.add(step)
            naive.add(step)
        if part == 0:
            buffer.mark_discontinuity()
            naive.mark_discontinuity()
    torch.manual_seed(0)
    found = set()
    for _ in range(60):
        batch = buffer.sample()
        columns = [batch["observation"]["observation"], batch["next_observation"]["observation"]]
        columns += [batch[name] for name in ("reward", "steps", "terminated")]
        for before, after, reward, steps, terminated in zip(*(column.tolist() for column in columns), strict=True):
            found.add((tuple(before), tuple(after), round(reward, 4), steps, terminated))
    assert found == naive.transitions(2)


def test_n_step_needs_gamma():
    with pytest.raises(ValueError, match="needs gamma"):
        UniformConfig(_target_="it", capacity=10, batch_size=2, n_step=3)


def test_terminated_has_no_future_and_truncated_has():
    flags = {"terminated": torch.tensor([True, False, False]), "truncated": torch.tensor([False, True, False])}
    assert bootstrap_weight(flags, 0.9).tolist() == pytest.approx([0, 0.9, 0.9])
    assert bootstrap_weight({**flags, "steps": torch.tensor([3, 2, 3])}, 0.9).tolist() == pytest.approx(
        [0, 0.81, 0.729]
    )
