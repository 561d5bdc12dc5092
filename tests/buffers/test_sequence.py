import numpy as np
import pytest
import torch

from paddock.buffers.disk import DiskBuffer, DiskConfig
from paddock.buffers.sequence import SequenceBuffer, SequenceConfig
from paddock.core.errors import InputError
from paddock.orchestration.checkpoint import CheckpointConfig, CheckpointStore
from streams import SPEC, NaiveRows, assert_windows, stream

COPIES = 3


@pytest.fixture(params=["memory", "disk"])
def make(request, tmp_path):
    """A small buffer in memory or on disk."""

    def build(**options):
        settings = {"_target_": "it", "capacity": 180, "batch_size": 32, "length": 5, "segment_steps": 45, **options}
        if request.param == "disk":
            return DiskBuffer(DiskConfig(**settings, folder=str(tmp_path / "replay")), SPEC, COPIES)
        return SequenceBuffer(SequenceConfig(**settings), SPEC, COPIES)

    return build


def fill(buffer, naive, steps):
    for step in steps:
        buffer.add(step)
        naive.add(step)


@pytest.mark.parametrize("same_step", [True, False])
@pytest.mark.parametrize("crosses", [True, False])
@pytest.mark.parametrize("count", [15, 50, 200])
def test_windows_are_those_of_a_naive_construction(make, same_step, crosses, count):
    buffer, naive = make(crosses_episodes=crosses), NaiveRows()
    fill(buffer, naive, stream(count, same_step=same_step))
    assert [len(rows) for rows in naive.streams] == buffer.totals.tolist()
    torch.manual_seed(0)
    for _ in range(5):
        batch = buffer.sample()
        assert batch["reward"].shape == (32, 5)
        assert batch["observation"]["image"].dtype == torch.uint8
        assert_windows(batch, naive)
        assert (batch["index"][:, 0, 1].numpy() >= buffer.oldest[batch["index"][:, 0, 0].numpy()]).all()
        if not crosses:
            assert not batch["is_first"][:, 1:].any()


@pytest.mark.parametrize("crosses", [True, False])
def test_every_possible_start_is_equally_likely(make, crosses):
    buffer, naive = make(crosses_episodes=crosses), NaiveRows()
    fill(buffer, naive, stream(90))
    generator = torch.Generator().manual_seed(1)
    index = torch.cat([buffer.sample(512, 5, generator)["index"][:, 0] for _ in range(25)]).numpy()
    drawn, counts = np.unique(index, axis=0, return_counts=True)
    expected = [
        (copy, start)
        for copy in range(COPIES)
        for start in range(buffer.oldest[copy], buffer.totals[copy] - 4)
        if crosses or not naive.window(copy, start, 5)["is_first"][1:].any()
    ]
    assert [tuple(row) for row in drawn] == expected
    mean = len(index) / len(expected)
    assert (np.abs(counts - mean) < 6 * np.sqrt(mean)).all()


def test_short_episodes_are_found_one_by_one_or_said_to_be_missing(make):
    buffer, naive = make(crosses_episodes=False, length=12, batch_size=2), NaiveRows()
    fill(buffer, naive, stream(120, end=0.3, seed=3))
    has_one = any(
        not naive.window(copy, start, 12)["is_first"][1:].any()
        for copy in range(COPIES)
        for start in range(buffer.oldest[copy], buffer.totals[copy] - 11)
    )
    assert buffer.can_sample() == has_one
    if has_one:
        assert_windows(buffer.sample(), naive)
    with pytest.raises(InputError, match="no window of 55"):
        buffer.sample(4, 55)


def restored(make, buffer, tmp_path, **options):
    store = CheckpointStore(tmp_path / "checkpoints", CheckpointConfig())
    store.save({}, {"replay": buffer}, agent_steps=1, info={}, score=None)
    copy = make(**options)
    store.load_buffer(store.load(), "replay", copy)
    return copy


@pytest.mark.parametrize("count", [4, 60, 200])
def test_a_restored_buffer_goes_on_exactly_and_sees_nothing_newer(make, tmp_path, count):
    buffer, naive = make(), NaiveRows()
    steps = list(stream(count + 200))
    fill(buffer, naive, steps[:count])
    copy = restored(make, buffer, tmp_path)
    fill(buffer, naive, steps[count : count + 100])
    assert copy.totals.sum() < buffer.totals.sum(), "what came after the checkpoint is not there"
    for step in steps[count : count + 100]:
        copy.add(step)
    one, other = (each.sample(64, 5, torch.Generator().manual_seed(2)) for each in (buffer, copy))
    assert torch.equal(one["index"], other["index"])
    assert_windows(one, naive)
    assert_windows(other, naive)


def test_a_second_checkpoint_writes_only_what_is_new(make, tmp_path):
    buffer, naive = make(capacity=2_000), NaiveRows()
    store = CheckpointStore(tmp_path / "checkpoints", CheckpointConfig())
    steps = list(stream(320))
    fill(buffer, naive, steps[:300])
    store.save({}, {"replay": buffer}, agent_steps=1, info={}, score=None)
    fill(buffer, naive, steps[300:])
    second = store.save({}, {"replay": buffer}, agent_steps=2, info={}, score=None)
    files = list((second / "buffers/replay").glob("rows-*.safetensors"))
    fresh = [file for file in files if file.stat().st_nlink == 1]
    assert len(files) > 40
    assert len(fresh) <= 1 + COPIES * (1 + 24 // 15)
    copy = make(capacity=2_000)
    store.load_buffer(store.load(), "replay", copy)
    assert_windows(copy.sample(), naive)


def test_a_fence_parts_what_does_not_follow(make):
    buffer, naive = make(), NaiveRows()
    fill(buffer, naive, stream(20, end=0.0))
    buffer.mark_discontinuity()
    naive.cut()
    fill(buffer, naive, stream(20, seed=1, end=0.0))
    batch = buffer.sample(64, 30)
    assert_windows(batch, naive)
    cut = batch["truncated"].any(1)
    assert cut.any()
    assert torch.equal(batch["truncated"][:, :-1], batch["is_first"][:, 1:]), "the cut is an end without termination"


def test_an_empty_extras_of_older_configurations_is_read_and_any_other_refused():
    options = {"_target_": "x", "capacity": 100, "batch_size": 2, "length": 4}
    assert SequenceConfig(**options, extras={}) == SequenceConfig(**options)
    with pytest.raises(ValueError, match="extras"):
        SequenceConfig(**options, extras={"memory": [4]})
