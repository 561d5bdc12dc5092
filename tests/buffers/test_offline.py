from itertools import pairwise

import numpy as np
import pytest
import torch

from paddock.buffers.minari_sets import write_minari
from paddock.buffers.offline import OfflineBuffer, OfflineConfig
from paddock.buffers.recordings import RecordingBuffer, RecordingConfig, read_recording
from paddock.core.errors import InputError
from paddock.core.specs import ArraySpec, Spec
from paddock.environments.gym import GymConfig, make
from paddock.environments.spaces import spec_of
from paddock.rollout.actor import RandomActor, RandomActorConfig
from paddock.rollout.collector import Collector
from streams import SPEC, NaiveRows, stream


def recorder(folder, spec=SPEC, copies=3):
    return RecordingBuffer(RecordingConfig(_target_="it", folder=str(folder), rows_per_file=40), spec, copies)


def offline(*sources, spec=SPEC, **options):
    config = OfflineConfig(_target_="it", sources=[str(source) for source in sources], batch_size=64, **options)
    return OfflineBuffer(config, spec, 1)


@pytest.fixture
def recorded(tmp_path):
    """A recording and the same episodes as plain rows."""
    buffer, naive = recorder(tmp_path / "recording"), NaiveRows()
    for step in stream(120):
        buffer.add(step)
        naive.add(step)
    buffer.flush()
    return tmp_path / "recording", naive


@pytest.fixture
def minari_home(tmp_path, monkeypatch):
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "minari"))


def whole_episodes(naive):
    """Copies' streams without the unfinished episodes at their ends."""
    for rows in naive.streams:
        ends = [at for at, row in enumerate(rows) if row["terminated"] or row["truncated"]]
        yield rows[: ends[-1] + 1]


def transitions_of(naive):
    return {
        (tuple(a["speed"]), tuple(b["speed"]), float(b["reward"]), b["terminated"], b["truncated"])
        for rows in whole_episodes(naive)
        for a, b in pairwise(rows)
        if not b["is_first"]
    }


def sampled(buffer, count=60):
    found = set()
    for _ in range(count):
        batch = buffer.sample()
        columns = [
            batch["observation"]["speed"],
            batch["next_observation"]["speed"],
            batch["reward"],
            batch["terminated"],
            batch["truncated"],
        ]
        for before, after, *rest in zip(*(column.tolist() for column in columns), strict=True):
            found.add((tuple(before), tuple(after), *rest))
    return found


def test_what_was_recorded_is_learned_from(recorded):
    folder, naive = recorded
    torch.manual_seed(0)
    assert sampled(offline(folder)) == transitions_of(naive)


def test_sequences_of_a_recording_stay_within_episodes(recorded):
    buffer = offline(recorded[0], sample_as="sequences", length=4)
    batch = buffer.sample(16)
    assert batch["observation"]["image"].shape == (16, 4, 2, 2, 3)
    assert not batch["is_first"][:, 1:].any()


def test_a_recording_goes_through_minari_unchanged(recorded, minari_home):
    folder, naive = recorded
    spec, files = read_recording(folder)
    write_minari("paddock/made-up/test-v0", files, spec, algorithm_name="random", author="Paddock")
    torch.manual_seed(0)
    through = sampled(offline("minari:paddock/made-up/test-v0"))
    assert {item[:2] for item in through} == {item[:2] for item in transitions_of(naive)}
    assert {item[3:] for item in through} == {(False, False), (True, False), (False, True)}


def test_actions_are_in_the_environments_range_in_minari_and_in_the_policys_here(tmp_path, minari_home):
    import minari

    env = make(GymConfig(_target_="it", id="Pendulum-v1", num_envs=2, max_episode_steps=10), 2)
    spec = spec_of(env)
    buffer = recorder(tmp_path / "pendulum", spec, 2)
    torch.manual_seed(0)
    Collector(env, spec, seed=1).collect(RandomActor(RandomActorConfig(_target_="it"), {}, spec), buffer, 60)
    buffer.flush()
    _, files = read_recording(tmp_path / "pendulum")
    write_minari("paddock/pendulum/random-v0", files, spec, algorithm_name="random", author="Paddock")
    actions = np.concatenate([e.actions for e in minari.load_dataset("paddock/pendulum/random-v0")])
    assert 1.5 < np.abs(actions).max() <= 2
    one, other = (offline(source, spec=spec) for source in (tmp_path / "pendulum", "minari:paddock/pendulum/random-v0"))
    assert len(one) == len(other) == 66
    for left, right in ((one, other),):
        a, b = (each.sample(32, generator=torch.Generator().manual_seed(1)) for each in (left, right))
        assert torch.allclose(a["action"], b["action"], atol=1e-6)
        assert torch.equal(a["observation"]["observation"], b["observation"]["observation"])
        assert torch.allclose(a["reward"], b["reward"])
    assert a["action"].abs().max() <= 1


def test_a_resumed_recording_has_every_episode_once(tmp_path):
    steps = list(stream(200))
    whole, broken = recorder(tmp_path / "whole"), recorder(tmp_path / "broken")
    for step in steps:
        whole.add(step)
    for step in steps[:90]:
        broken.add(step)
    state = broken.get_state()
    for step in steps[90:150]:
        broken.add(step)
    broken.flush()
    resumed = recorder(tmp_path / "broken")
    resumed.set_state(state)
    for step in steps[90:]:
        resumed.add(step)
    whole.flush()
    resumed.flush()
    one, other = (
        {name: np.concatenate([rows[name] for rows in files]) for name in ("reward", "observation.image")}
        for files in (list(read_recording(tmp_path / name)[1]) for name in ("whole", "broken"))
    )
    assert np.array_equal(one["reward"], other["reward"])
    assert np.array_equal(one["observation.image"], other["observation.image"])


def test_what_cannot_be_used_is_explained(recorded, minari_home, tmp_path):
    with pytest.raises(InputError, match="is not a recording"):
        offline(tmp_path / "nowhere")
    with pytest.raises(InputError, match="minari download"):
        offline("minari:mujoco/halfcheetah/expert-v0")
    another = Spec(observation=SPEC.observation, action=ArraySpec(shape=(), dtype="int64", choices=3), is_dict=True)
    with pytest.raises(InputError, match="another environment"):
        offline(recorded[0], spec=another)
    with pytest.raises(InputError, match="takes no new experience"):
        offline(recorded[0]).add({})
