"""Demonstrations on disk and as a buffer: what is written is read back bit for bit, what is broken gets a sentence."""

import dataclasses
import json

import msgspec
import numpy as np
import pytest
import torch

from demonstration_cases import SPEC, assert_same_episode, make_episode, write_set
from paddock.buffers.demonstration_files import DESCRIPTION
from paddock.buffers.demonstrations import DemonstrationsBuffer, DemonstrationsConfig, load_episodes
from paddock.buffers.episodes import (
    CORRECTED,
    Description,
    EpisodeWriter,
    read_description,
)
from paddock.buffers.offline import OfflineBuffer, OfflineConfig
from paddock.buffers.recordings import RecordingBuffer, RecordingConfig
from paddock.core.errors import InputError
from paddock.core.specs import ArraySpec, Spec


@pytest.fixture
def episodes():
    return [make_episode(7, 1), make_episode(3, 2, terminates=True), make_episode(12, 3, marked=True)]


def buffer_of(*sources, **options):
    config = DemonstrationsConfig(_target_="it", sources=[str(one) for one in sources], batch_size=64, **options)
    return DemonstrationsBuffer(config, SPEC, 5)


def test_demonstrations_are_read_back_bit_for_bit(tmp_path, episodes):
    folder = write_set(tmp_path / "set", *episodes)
    for written, read in zip(episodes, load_episodes(folder, SPEC), strict=True):
        assert_same_episode(written, read)
    description = read_description(folder)
    assert description.spec == SPEC
    assert description.time_step == 0.05
    assert description.environment == {"_target_": "paddock.environments.gym.make"}
    assert not list(folder.glob(".*"))


def test_demonstrations_are_appended_to(tmp_path, episodes):
    folder = write_set(tmp_path / "set", episodes[0])
    write_set(folder, *episodes[1:])
    assert [len(episode) for episode in load_episodes(folder)] == [7, 3, 12]
    other = dataclasses_replace_action(SPEC)
    with pytest.raises(InputError, match="another environment"):
        write_set(folder, spec=other)


def dataclasses_replace_action(spec):
    return Spec(observation=spec.observation, action=ArraySpec(shape=(), dtype="int64", choices=3), is_dict=True)


def test_targets_of_demonstrations_are_the_teachers_where_it_corrected(episodes):
    marked = episodes[2]
    for step in range(len(marked)):
        expected = marked.labels[step] if marked.marks[CORRECTED][step] else marked.actions[step]
        np.testing.assert_array_equal(marked.targets[step], expected)
    assert episodes[0].targets is episodes[0].actions


@pytest.mark.parametrize(
    ("break_it", "sentence"),
    [
        (lambda folder: (folder / "episode-000001.safetensors").unlink(), "episode-000001 .*does not exist"),
        (lambda folder: (folder / "episode-000000.json").write_text("{"), "episode-000000 .*not JSON"),
        (lambda folder: (folder / "episode-000000.safetensors").write_bytes(b"x" * 20), "episode-000000"),
        (lambda folder: (folder / DESCRIPTION).write_text("[]"), "have format None"),
        (lambda folder: (folder / DESCRIPTION).write_text('{"format": 1, "spec": {}}'), "spec cannot be read"),
        (lambda folder: (folder / DESCRIPTION).unlink(), "neither demonstrations nor a recording"),
        (lambda folder: _swap(folder), "is damaged: observation 'image'"),
        (lambda folder: _link(folder), "symbolic link"),
    ],
)
def test_broken_demonstrations_get_a_sentence(tmp_path, episodes, break_it, sentence):
    folder = write_set(tmp_path / "set", *episodes)
    break_it(folder)
    with pytest.raises(InputError, match=sentence) as caught:
        load_episodes(folder)
    assert "\n" not in str(caught.value)


def test_demonstrations_that_are_not_there_are_to_be_recorded_first(tmp_path):
    with pytest.raises(InputError, match="paddock record episodes"):
        load_episodes(tmp_path / "nothing")


def test_a_folder_of_sets_is_told_from_a_set(tmp_path, episodes):
    found = write_set(tmp_path / "sets/one", *episodes)
    with pytest.raises(InputError, match=f"folder of sets, not a set; name one of them: {found}"):
        load_episodes(tmp_path / "sets")


def test_demonstrations_of_another_environment_are_refused_in_a_sentence(tmp_path, episodes):
    folder = write_set(tmp_path / "set", *episodes)
    name, part = next(iter(SPEC.observation.items()))
    changed = msgspec.structs.replace(part, shape=(*part.shape, 2))
    other = msgspec.structs.replace(SPEC, observation={**SPEC.observation, name: changed})
    with pytest.raises(InputError) as caught:
        load_episodes(folder, other)
    said = str(caught.value)
    assert f"their '{name}' is {part.dtype} {part.shape}, here {part.dtype} {changed.shape}" in said
    assert "--experiment" in said
    assert len(said) < 400  # and no dump of all bounds
    steered = msgspec.structs.replace(SPEC, action=msgspec.structs.replace(SPEC.action, high=7.0))
    with pytest.raises(InputError, match="their actions are of another range than here"):
        load_episodes(folder, steered)


def _swap(folder):
    """The arrays of another episode under the names of this one."""
    for suffix in (".json", ".safetensors"):
        (folder / f"episode-000001{suffix}").replace(folder / f"episode-000000{suffix}")
    values = json.loads((folder / "episode-000000.json").read_text())
    values["observations"]["image"] = values["observations"]["speed"]
    (folder / "episode-000000.json").write_text(json.dumps(values))


def _link(folder):
    file = folder / "episode-000000.safetensors"
    file.rename(folder / "elsewhere")
    file.symlink_to(folder / "elsewhere")


def test_demonstrations_that_do_not_fit_are_not_written(tmp_path, episodes):
    writer = EpisodeWriter(tmp_path / "set", Description(SPEC))
    for change, sentence in [
        ({"actions": episodes[0].actions.astype(np.float64)}, "actions is float64"),
        ({"rewards": np.full(7, np.nan)}, "not finite"),
        ({"marks": {"beautiful": np.zeros(7, bool)}}, "unknown mark"),
        ({"labels": episodes[0].actions}, "no mark 'corrected'"),
        ({"truncations": np.zeros(6, bool)}, "truncations is not a list of 7"),
    ]:
        with pytest.raises(InputError, match=sentence):
            writer.add(dataclasses.replace(episodes[0], **change))
    assert load_episodes(tmp_path / "set") == []


def test_a_demonstrations_buffer_gives_the_transitions_of_its_episodes(tmp_path, episodes):
    buffer = buffer_of(write_set(tmp_path / "set", *episodes))
    assert len(buffer) == 22
    known = {}
    for episode in episodes:
        for t in range(len(episode)):
            known[tuple(episode.observations["speed"][t])] = (episode, t)
    seen = set()
    for _ in range(10):
        batch = buffer.sample()
        assert len(batch["reward"]) == 64
        for at in range(64):
            episode, t = known[tuple(batch["observation"]["speed"][at].numpy())]
            seen.add((id(episode), t))
            np.testing.assert_array_equal(batch["next_observation"]["image"][at], episode.observations["image"][t + 1])
            steer, pedal = episode.actions[t]
            np.testing.assert_allclose(batch["action"][at], [steer, pedal / 1.5 - 1], atol=1e-6)
            assert float(batch["reward"][at]) == np.float32(episode.rewards[t])
            assert bool(batch["terminated"][at]) == episode.terminations[t]
    assert len(seen) == 22
    assert len(buffer.sample(5)["reward"]) == 5


def test_a_demonstrations_buffer_sums_n_steps_within_an_episode(tmp_path, episodes):
    buffer = buffer_of(write_set(tmp_path / "set", *episodes), n_step=3, gamma=0.9)
    known = {tuple(e.observations["speed"][t]): (e, t) for e in episodes for t in range(len(e))}
    batch = buffer.sample()
    for at in range(64):
        episode, t = known[tuple(batch["observation"]["speed"][at].numpy())]
        steps = min(3, len(episode) - t)
        assert int(batch["steps"][at]) == steps
        expected = sum(0.9**k * episode.rewards[t + k] for k in range(steps))
        assert float(batch["reward"][at]) == pytest.approx(expected, abs=1e-5)
        np.testing.assert_array_equal(batch["next_observation"]["image"][at], episode.observations["image"][t + steps])


def test_a_demonstrations_buffer_gives_sequences(tmp_path, episodes):
    buffer = buffer_of(write_set(tmp_path / "set", *episodes), length=5)
    batch = buffer.sample(16)
    assert batch["observation"]["speed"].shape == (16, 5, 2)
    assert not batch["is_first"][:, 1:].any()


def test_a_demonstrations_buffer_is_the_same_after_a_resume_or_says_why_not(tmp_path, episodes):
    folder = write_set(tmp_path / "set", *episodes)
    one, other = buffer_of(folder), buffer_of(folder)
    other.set_state(one.get_state())
    torch.manual_seed(1)
    first = one.sample()["reward"]
    torch.manual_seed(1)
    assert torch.equal(first, other.sample()["reward"])
    write_set(folder, episodes[0])
    with pytest.raises(InputError, match="needs the same data"):
        buffer_of(folder).set_state(one.get_state())


def test_demonstrations_and_recordings_are_sources_of_either_buffer(tmp_path):
    spec = Spec(observation={"observation": ArraySpec(shape=(1,), dtype="float32")}, action=SPEC.action)
    recorder = RecordingBuffer(RecordingConfig(_target_="it", folder=str(tmp_path / "recording")), spec, 1)
    for t in range(4):
        end = np.array([t == 3])
        seen = {"observation": np.full((1, 1), t, np.float32)}
        then = {"observation": np.full((1, 1), t + 1, np.float32)}
        step = {"observation": seen, "next_observation": then, "action": np.full((1, 2), 0.5, np.float32)}
        step |= {"reward": np.array([t], np.float32), "terminated": end, "truncated": ~end & False}
        recorder.add({**step, "valid": np.ones(1, bool)})
    recorder.flush()
    (episode,) = load_episodes(tmp_path / "recording", spec)
    np.testing.assert_allclose(episode.actions, [[0.5, 2.25]] * 4)
    np.testing.assert_array_equal(episode.rewards, [0, 1, 2, 3])
    folder = write_set(tmp_path / "set", episode, spec=spec)
    config = OfflineConfig(_target_="it", sources=[str(folder)], batch_size=8)
    batch = OfflineBuffer(config, spec, 1).sample()
    np.testing.assert_allclose(batch["action"], [[0.5, 0.5]] * 8, atol=1e-6)
