import numpy as np
import pytest
import torch

from paddock.buffers.prioritized import PrioritizedBuffer, PrioritizedConfig
from paddock.buffers.rollout import RolloutBuffer, RolloutConfig
from paddock.buffers.sequence import SequenceBuffer, SequenceConfig
from paddock.buffers.uniform import UniformBuffer, UniformConfig
from paddock.core.trees import map_tree
from paddock.rollout import chunks
from streams import SPEC, stream


def chunk_of(steps):
    """Vector steps as a worker's chunk."""
    steps = list(steps)
    copies = len(steps[0]["reward"])
    recorder = RolloutBuffer(RolloutConfig(_target_="it", steps=len(steps) * copies), SPEC, copies)
    for step in steps:
        recorder.add(step)
    return recorder.rows()


def contents(buffer):
    """Everything that a checkpoint would hold of a buffer."""
    return [buffer.get_state(), *(segment.read() for segment in buffer.segments())]


def assert_equal(one, other):
    ours, theirs = [], []
    map_tree(lambda leaf: ours.append(np.asarray(leaf)), one)
    map_tree(lambda leaf: theirs.append(np.asarray(leaf)), other)
    assert len(ours) == len(theirs)
    for a, b in zip(ours, theirs, strict=True):
        assert np.array_equal(a, b)


@pytest.mark.parametrize("same_step", [True, False])
@pytest.mark.parametrize("capacity", [30, 90, 1_000])
@pytest.mark.parametrize("kind", ["uniform", "prioritized"])
def test_add_steps_of_chunks_is_the_same_as_adding_their_steps(kind, capacity, same_step):
    options = {"_target_": "it", "capacity": capacity, "batch_size": 8, "segment_steps": 12}
    if kind == "uniform":
        single, bulk = (UniformBuffer(UniformConfig(**options), SPEC, 3) for _ in range(2))
    else:
        single, bulk = (PrioritizedBuffer(PrioritizedConfig(**options), SPEC, 3) for _ in range(2))
    for seed, length in enumerate([7, 1, 25, 40, 3]):  # Each is a stream of its own: they do not follow each other.
        steps = list(stream(length, seed=seed, same_step=same_step))
        single.mark_discontinuity()
        bulk.mark_discontinuity()
        for step in steps:
            single.add(step)
        bulk.add_steps(chunk_of(steps))
        assert_equal(contents(single), contents(bulk))
    torch.manual_seed(0)
    first = single.sample()
    torch.manual_seed(0)
    assert_equal(first, bulk.sample())


@pytest.mark.parametrize("same_step", [True, False])
def test_chunk_gives_back_the_vector_steps_it_was_made_of(same_step):
    steps = list(stream(40, same_step=same_step))
    for step, back in zip(steps, chunks.vector_steps(chunk_of(steps)), strict=True):
        assert back.keys() == step.keys()
        step["reward"] = step["reward"].astype(np.float32)
        assert_equal(dict(sorted(step.items())), dict(sorted(back.items())))


def test_chunk_flat_and_nested_are_inverse_and_fit_the_layout():
    chunk = chunk_of(stream(9))
    flat = chunks.flat(chunk)
    expected = chunks.layout(SPEC, 9, 3, len(chunk["final_index"]))
    assert {name: (array.shape, str(array.dtype)) for name, array in flat.items()} == expected
    back = chunks.flat(chunks.nested(flat))
    assert back.keys() == flat.keys()
    assert all(back[name] is flat[name] for name in flat)
    assert chunks.decisions(chunk) == chunk["valid"].sum()


def test_chunks_beside_each_other_are_the_steps_of_all_workers():
    ours, theirs = list(stream(12, seed=1)), list(stream(12, seed=2))
    joined = chunks.beside([chunk_of(ours), chunk_of(theirs)])
    for a, b, step in zip(ours, theirs, chunks.vector_steps(joined), strict=True):
        assert np.array_equal(step["action"], np.concatenate([a["action"], b["action"]]))
        ended = np.concatenate([a["terminated"] | a["truncated"], b["terminated"] | b["truncated"]])
        assert np.array_equal(step.get("final_rows", np.zeros(0, int)), np.flatnonzero(ended))
        finals = [one["final_observation"]["speed"] for one in (a, b) if "final_rows" in one]
        if finals:
            assert np.array_equal(step["final_observation"]["speed"], np.concatenate(finals))


@pytest.mark.parametrize("same_step", [True, False])
def test_sequences_of_two_workers_never_mix(same_step):
    config = SequenceConfig(_target_="it", capacity=2_000, batch_size=16, length=4)
    buffer = SequenceBuffer(config, SPEC, 6)
    apart = [SequenceBuffer(config, SPEC, 3) for _ in range(2)]
    streams = [list(stream(60, seed=worker, same_step=same_step)) for worker in range(2)]
    for start in range(0, 60, 20):
        for worker in (0, 1):
            steps = streams[worker][start : start + 20]
            for step in steps:
                apart[worker].add(step)
            for step in chunks.vector_steps(chunks.among(chunk_of(steps), 3 * worker, 6)):
                buffer.add(step)
    assert np.array_equal(buffer.totals, np.concatenate([one.totals for one in apart]))
    for worker in (0, 1):
        for copy in range(3):
            count = int(apart[worker].totals[copy])
            mine = buffer.gather(np.array([3 * worker + copy]), np.array([0]), count)
            alone = apart[worker].gather(np.array([copy]), np.array([0]), count)
            mine.pop("index"), alone.pop("index")
            assert_equal(mine, alone)


def test_sequence_that_begins_anew_without_an_end_is_cut():
    config = SequenceConfig(_target_="it", capacity=200, batch_size=1, length=2)
    buffer = SequenceBuffer(config, SPEC, 3)
    for seed in (1, 2):
        for step in chunks.vector_steps(chunk_of(stream(5, seed=seed, end=0.0))):
            buffer.add(step)
    window = buffer.gather(np.array([0]), np.array([4]), 2)
    assert window["is_first"][0].tolist() == [False, True]
    assert window["truncated"][0, 0]
    assert window["reward"][0, 1] == 0


@pytest.mark.parametrize(
    ("spoil", "sentence"),
    [
        (lambda chunk: chunk["reward"].__setitem__((0, 0), np.nan), "'reward' holds a number that is not finite"),
        (lambda chunk: chunk["observation"]["speed"].__setitem__((1, 0), np.inf), "'observation.speed'"),
        (lambda chunk: chunk["final_index"].__setitem__((0, 0), 99), "a step that is not in the chunk"),
        (lambda chunk: chunk["final_index"].__setitem__((0, 1), -1), "a step that is not in the chunk"),
        (
            lambda chunk: chunk.update(terminated=chunk["terminated"] & False, truncated=chunk["truncated"] & False),
            "ended no episode",
        ),
    ],
)
def test_chunk_that_cannot_be_is_named(spoil, sentence):
    chunk = chunk_of(stream(40))
    assert chunks.problem_of(chunk, SPEC, 3) is None
    spoil(chunk)
    assert sentence in chunks.problem_of(chunk, SPEC, 3)
