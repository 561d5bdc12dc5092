"""Chunks of actions with the history before them, window by window against a plain version; what is held out; state."""

import numpy as np
import pytest
import torch
from pydantic import ValidationError

from paddock.buffers.action_chunks import ActionChunkBuffer, ActionChunkConfig
from paddock.buffers.episodes import Description, Episode, EpisodeWriter
from paddock.core.errors import InputError
from paddock.core.specs import ArraySpec, Spec

SPEC = Spec(
    observation={"place": ArraySpec(shape=(1,), dtype="float32")},
    action=ArraySpec(shape=(1,), dtype="float32", low=-200.0, high=200.0),
)
LENGTHS = [5, 3, 9, 1, 7, 6, 4, 8, 2, 6]
HISTORY, HORIZON = 3, 4


def episode(number, length, labels=False):
    """Observations number * 20 + step; actions 0.5 above them."""
    places = number * 20 + np.arange(length + 1, dtype=np.float32)[:, None]
    ends = np.arange(1, length + 1) == length
    given = {"labels": places[:-1] + 0.75, "marks": {"corrected": np.arange(length) % 2 == 0}} if labels else {}
    rewards = np.zeros(length, np.float32)
    return Episode({"place": places}, places[:-1] + 0.5, rewards, ends, np.zeros(length, bool), **given)


def written(folder, labels=False):
    writer = EpisodeWriter(folder, Description(SPEC))
    for number, length in enumerate(LENGTHS):
        writer.add(episode(number, length, labels))
    return str(folder)


def buffer_of(num_envs=2, spec=SPEC, **options):
    settings = {"batch_size": 16, "history": HISTORY, "horizon": HORIZON, **options}
    return ActionChunkBuffer(ActionChunkConfig(_target_="paddock.buffers.action_chunks.X", **settings), spec, num_envs)


def check_samples(batch):
    """Every sample is what a plain loop over its episode gives."""
    for seen, action, padded in zip(batch["observation"]["place"], batch["action"], batch["is_padding"], strict=True):
        number, step = divmod(int(seen[-1]), 20)
        length = LENGTHS[number]
        assert seen[:, 0].tolist() == [number * 20 + max(step - back, 0) for back in reversed(range(HISTORY))]
        steps = [min(step + ahead, length - 1) for ahead in range(HORIZON)]
        assert (action[:, 0] * 200).tolist() == pytest.approx([number * 20 + one + 0.5 for one in steps], abs=1e-3)
        assert padded.tolist() == [step + ahead >= length for ahead in range(HORIZON)]


def test_action_chunks_of_demonstrations_equal_a_plain_window(tmp_path):
    buffer = buffer_of(sources=[written(tmp_path / "set")], validation=0.0)
    torch.manual_seed(0)
    batch = buffer.sample(2_000)
    check_samples(batch)
    found = {int(one) for one in batch["observation"]["place"][:, -1, 0]}
    assert found == {number * 20 + step for number, length in enumerate(LENGTHS) for step in range(length)}


def test_action_chunks_hold_out_whole_episodes_that_are_never_sampled(tmp_path):
    buffer = buffer_of(sources=[written(tmp_path / "set")], validation=0.2)
    torch.manual_seed(0)
    learned = {int(one) // 20 for one in buffer.sample(3_000)["observation"]["place"][:, -1, 0]}
    held_out = {int(one) // 20 for one in buffer.sample_validation(3_000)["observation"]["place"][:, -1, 0]}
    assert len(held_out) == 2
    assert learned | held_out == set(range(10))
    assert not learned & held_out
    assert buffer_of(sources=[written(tmp_path / "all")], validation=0.0).sample_validation(10) is None


def test_action_chunks_learn_what_a_teacher_corrected(tmp_path):
    buffer = buffer_of(sources=[written(tmp_path / "set", labels=True)], validation=0.0, horizon=1)
    batch = buffer.sample(500)
    offsets = batch["action"][:, 0, 0] * 200 - batch["observation"]["place"][:, -1, 0]
    is_even = batch["observation"]["place"][:, -1, 0] % 20 % 2 == 0
    assert torch.allclose(offsets, torch.where(is_even, 0.75, 0.5), atol=1e-3)


def test_action_chunks_spans_leave_out_the_last_rows_action(tmp_path):
    observation, action = buffer_of(sources=[written(tmp_path / "set")]).spans()
    assert [float(one) for one in observation["place"]] == [0.0, 185.0]
    assert float(action[0]) * 200 == pytest.approx(0.5)


def test_action_chunks_deviations_are_those_of_all_rows_with_an_action(tmp_path):
    buffer = buffer_of(sources=[written(tmp_path / "set")])
    low, high = buffer.deviations()["place"]
    rows = np.concatenate([episode.observations["place"][:-1] for episode in buffer.episodes])
    assert float(high + low) / 2 == pytest.approx(rows.mean(), rel=1e-5)
    assert float(high - low) / 2 == pytest.approx(rows.std(), rel=1e-5)


def steps(start, count, num_envs=2, ends=()):
    """Vector steps in which copy c is at 1000 c + time; a teacher would do ten times as much."""
    for time in range(start, start + count):
        places = (1000 * np.arange(num_envs) + time).astype(np.float32)[:, None]
        yield {
            "observation": {"place": places, "teacher_action": places * 10},
            "next_observation": {"place": places + 1, "teacher_action": places * 10 + 10},
            "action": places + 0.5,
            "reward": np.zeros(num_envs, np.float32),
            "terminated": np.full(num_envs, time in ends),
            "truncated": np.zeros(num_envs, bool),
            "valid": np.ones(num_envs, bool),
        }


LABELLED = Spec(
    observation={**SPEC.observation, "teacher_action": ArraySpec(shape=(1,), dtype="float32")}, action=SPEC.action
)


def test_action_chunks_of_collected_steps_are_labelled_by_the_teacher():
    buffer = buffer_of(spec=LABELLED, capacity=100, label="teacher_action")
    assert not buffer.can_sample()
    for one in steps(0, 12, ends=(5, 11)):
        buffer.add(one)
    batch = buffer.sample(400)
    assert set(batch["observation"]) == {"place"}
    for seen, action in zip(batch["observation"]["place"], batch["action"], strict=True):
        copy, time = divmod(int(seen[-1]), 1000)
        first, last = (0, 5) if time <= 5 else (6, 11)
        assert seen[:, 0].tolist() == [1000 * copy + max(time - back, first) for back in (2, 1, 0)]
        assert action[:, 0].tolist() == [10 * (1000 * copy + min(time + ahead, last)) for ahead in range(HORIZON)]


def test_action_chunks_go_on_to_the_bit_from_their_state(tmp_path):
    options = {"spec": SPEC, "sources": [written(tmp_path / "set")], "capacity": 40, "segment_steps": 8}
    buffer, other = buffer_of(**options), buffer_of(**options)
    for one in steps(0, 30, ends=(7, 19)):
        seen = {key: {"place": one[key]["place"]} for key in ("observation", "next_observation")}
        buffer.add({**one, **seen})
    other.set_state(buffer.get_state())
    for segment in buffer.segments():
        other.load_segment(segment.read())
    torch.manual_seed(3)
    expected = buffer.sample(64)
    torch.manual_seed(3)
    found = other.sample(64)
    assert torch.equal(expected["action"], found["action"])
    assert torch.equal(expected["observation"]["place"], found["observation"]["place"])
    with pytest.raises(InputError, match="needs the same data"):
        buffer_of(sources=options["sources"], episodes=3).set_state(buffer_of(sources=options["sources"]).get_state())


def test_action_chunks_say_what_is_missing(tmp_path):
    with pytest.raises(ValidationError, match="nothing to learn from"):
        buffer_of()
    with pytest.raises(InputError, match="no part teacher_action"):
        buffer_of(capacity=10, label="teacher_action")
    with pytest.raises(InputError, match="takes no new experience"):
        buffer_of(sources=[written(tmp_path / "set")]).add({})
