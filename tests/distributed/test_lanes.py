import numpy as np
import pytest

from paddock.buffers.sequence import SequenceBuffer, SequenceConfig
from paddock.buffers.uniform import UniformBuffer, UniformConfig
from paddock.distributed.chunk_codec import ChunkNote, ReceivedChunk
from paddock.distributed.lanes import Lanes
from paddock.distributed.recorder import Recorder
from streams import SPEC, stream

OPTIONS = {"_target_": "it", "capacity": 900, "batch_size": 4}


def received(worker, sequence, chunk, note):
    whole = ChunkNote(length=len(chunk["reward"]), num_envs=3, finals=len(chunk["final_index"]), arrays=b"", **note)
    return ReceivedChunk(worker, sequence, 1, whole, chunk)


def chunks_of(worker, seed, length=60, piece=20):
    recorder, found = Recorder(SPEC, 3, piece), []
    for step in stream(length, seed=seed):
        recorder.add(step)
        if len(recorder) == piece:
            found.append(received(worker, len(found) + 1, *recorder.take()))
    return found


@pytest.mark.parametrize("lanes", [1, 2])
def test_lanes_keep_a_workers_sequence_whole_over_its_chunks(lanes):
    """Also where there is one lane: a buffer of sequences takes step after step."""
    buffer = SequenceBuffer(SequenceConfig(**OPTIONS, length=4), SPEC, 3 * lanes)
    alone = SequenceBuffer(SequenceConfig(**OPTIONS, length=4), SPEC, 3)
    written = Lanes(3 * lanes, 3)
    for chunk in chunks_of("a" * 16, seed=1):
        written.write(chunk, buffer)
    for step in stream(60, seed=1):
        alone.add(step)
    for copy in range(3):
        count = int(alone.totals[copy])
        assert buffer.totals[copy] == count
        mine, theirs = (one.gather(np.array([copy]), np.array([0]), count) for one in (buffer, alone))
        assert all((mine[name] == theirs[name]).all() for name in ("action", "reward", "is_first", "truncated"))


def test_lanes_part_two_workers_that_take_turns_in_one_ring():
    buffer, lanes = UniformBuffer(UniformConfig(**OPTIONS), SPEC, 3), Lanes(3, 3)
    ours, theirs = chunks_of("a" * 16, seed=1), chunks_of("b" * 16, seed=2)
    for one, other in zip(ours, theirs, strict=True):
        lanes.write(one, buffer)
        lanes.write(other, buffer)
    valid = buffer._arrays["valid"][: buffer.total]
    assert buffer.total == 6 * 20 + 5, "an unusable row stands between two workers' chunks"
    assert (~valid).all(1).sum() == 5
