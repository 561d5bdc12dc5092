import dataclasses

import msgspec
import numpy as np
import pytest

from paddock.distributed.chunk_codec import ChunkCodec, ChunkNote, MixedSamples, UnfitChunk
from paddock.distributed.chunk_files import StoredChunk
from paddock.distributed.recorder import Recorder
from paddock.rollout import chunks
from paddock.rollout.result import CollectResult
from streams import SPEC, stream

WORKER = "a" * 16


class OffByOne:
    """A compressor that does not give back what it took."""

    def compress(self, arrays):
        return arrays

    def decompress(self, arrays):
        return {**arrays, "reward": arrays["reward"] + np.float32(1)}


def recorded(steps, length=100):
    recorder = Recorder(SPEC, 3, length)
    for step in steps:
        recorder.add(step)
    return recorder.take()


def stored(codec, steps):
    chunk, note = recorded(steps)
    packed = codec.pack(chunk, 7, **note)
    return chunk, StoredChunk(WORKER, 1, packed.steps, 7, packed.header, memoryview(b"".join(packed.body)))


@pytest.mark.parametrize("check_samples", [True, False])
@pytest.mark.parametrize("compress", [True, False])
def test_chunk_arrives_as_it_was_collected(compress, check_samples):
    codec = ChunkCodec(SPEC, 3, compress=compress, check_samples=check_samples)
    chunk, message = stored(codec, stream(30))
    received = codec.unpack(message)
    assert received.version == 7
    ours, theirs = chunks.flat(chunk), chunks.flat(received.chunk)
    assert ours.keys() == theirs.keys()
    assert all(np.array_equal(ours[name], theirs[name]) for name in ours)


def test_check_samples_names_a_compressor_that_changes_transitions():
    _, message = stored(ChunkCodec(SPEC, 3, [OffByOne()], check_samples=True), stream(30))
    with pytest.raises(MixedSamples, match=r"'reward' differs at \[0, 0\]"):
        ChunkCodec(SPEC, 3, [OffByOne()]).unpack(message)
    _, unchecked = stored(ChunkCodec(SPEC, 3, [OffByOne()]), stream(30))
    ChunkCodec(SPEC, 3, [OffByOne()]).unpack(unchecked)


def with_note(message, **changes):
    note = msgspec.msgpack.decode(message.header, type=ChunkNote)
    header = msgspec.msgpack.encode(msgspec.structs.replace(note, **changes))
    return dataclasses.replace(message, header=header)


@pytest.mark.parametrize(
    ("spoil", "sentence"),
    [
        (lambda m: with_note(m, num_envs=4), "environment.num_envs"),
        (lambda m: with_note(m, length=2**40), "steps"),
        (lambda m: with_note(m, length=29), "instead of"),
        (lambda m: with_note(m, finals=0), "instead of"),
        (lambda m: with_note(m, episodes=[]), "which episodes"),
        (lambda m: dataclasses.replace(m, header=b"\x00"), "cannot be read"),
        (lambda m: dataclasses.replace(m, body=m.body[:-9]), "cannot be read"),
    ],
)
def test_chunk_that_does_not_fit_is_refused_with_a_sentence(spoil, sentence):
    codec = ChunkCodec(SPEC, 3, compress=False)
    _, message = stored(codec, stream(30))
    with pytest.raises(UnfitChunk, match=sentence):
        codec.unpack(spoil(message))


def test_chunk_with_a_number_that_is_not_finite_is_refused():
    steps = list(stream(30))
    steps[3]["reward"][1] = np.nan
    codec = ChunkCodec(SPEC, 3)
    _, message = stored(codec, steps)
    with pytest.raises(UnfitChunk, match="'reward' holds a number that is not finite"):
        codec.unpack(message)


@pytest.mark.parametrize("same_step", [True, False])
def test_recorder_names_episode_and_step_of_every_transition(same_step):
    recorder, names = Recorder(SPEC, 3, 16), [[], [], []]
    episode, step = np.zeros(3, int), np.zeros(3, int)
    expected = [[], [], []]
    for number, one in enumerate(stream(64, same_step=same_step)):
        recorder.add(one)
        for copy in range(3):
            if one["valid"][copy]:
                expected[copy].append((episode[copy], step[copy]))
                step[copy] += 1
                if one["terminated"][copy] or one["truncated"][copy]:
                    episode[copy], step[copy] = episode[copy] + 1, 0
        if len(recorder) == 16:
            chunk, note = recorder.take()
            assert note["continues"] == (number >= 16)
            for copy in range(3):
                names[copy] += named(chunk, note, copy)
    assert names == expected


def named(chunk, note, copy):
    episode, step, found = note["episodes"][copy], note["steps"][copy], []
    for t in range(chunks.length(chunk)):
        if chunk["valid"][t, copy]:
            found.append((episode, step))
            step += 1
            if chunk["terminated"][t, copy] or chunk["truncated"][t, copy]:
                episode, step = episode + 1, 0
    return found


def test_recorder_gives_means_over_the_episodes_of_a_chunk():
    recorder = Recorder(SPEC, 3, 16)
    recorder.add(next(stream(1)))
    recorder.count(CollectResult(3, 1, {"collect/return": 2.0}))
    recorder.count(CollectResult(3, 3, {"collect/return": 6.0}))
    recorder.count(CollectResult(3, 0, {"collect/return": 99.0}))
    _, note = recorder.take()
    assert (note["ended"], note["metrics"], note["env_frames"]) == (4, {"collect/return": 5.0}, 9)
