import errno
import json
import logging
import os
import resource
import signal

import numpy as np
import pytest

from paddock.buffers.uniform import UniformBuffer, UniformConfig
from paddock.core.errors import InputError, PaddockError
from paddock.core.specs import ArraySpec, Spec
from paddock.orchestration.checkpoint import CheckpointConfig, CheckpointStore, read_checkpoint


def store(folder, **values):
    return CheckpointStore(folder / "checkpoints", CheckpointConfig(**values))


def save(checkpoints, step, score=None, buffers=None, size=4):
    state = {"weights": np.full(size, step, np.float32), "step": step}
    return checkpoints.save(state, buffers or {}, agent_steps=step, info={"workflow": "w"}, score=score)


def names(checkpoints):
    return [int(path.name.split("-")[1]) for path in checkpoints.all()]


def test_what_is_saved_comes_back(tmp_path):
    checkpoints = store(tmp_path)
    save(checkpoints, 10)
    loaded = checkpoints.load()
    assert loaded.state["step"] == 10
    assert loaded.state["weights"].tolist() == [10.0] * 4
    assert loaded.info["workflow"] == "w"
    assert (checkpoints.folder / "latest").resolve() == loaded.path


def test_none_yet(tmp_path):
    assert store(tmp_path).load() is None


def test_the_last_the_best_and_the_pinned_are_kept(tmp_path):
    checkpoints = store(tmp_path, keep_last=2, keep_best=2, pin_every_steps=100)
    scores = {20: 5.0, 30: 9.0, 50: 7.0, 60: 1.0}
    for step in range(10, 160, 10):
        save(checkpoints, step, scores.get(step))
    assert names(checkpoints) == [30, 50, 100, 140, 150]
    assert (checkpoints.folder / "best").resolve().name == "step-000000000030"
    (checkpoints.folder / "step-000000000140" / "pinned").touch()
    save(checkpoints, 160)
    save(checkpoints, 170)
    assert names(checkpoints) == [30, 50, 100, 140, 160, 170]


def test_the_same_step_twice_keeps_both_and_loads_the_later(tmp_path):
    checkpoints = store(tmp_path)
    save(checkpoints, 10)
    save(checkpoints, 10, size=9)
    assert len(checkpoints.load().state["weights"]) == 9


@pytest.mark.parametrize("damage", ["flip", "truncate", "remove", "seal", "empty seal"])
def test_a_damaged_newest_falls_back_with_a_warning(tmp_path, caplog, damage):
    checkpoints = store(tmp_path, keep_last=3)
    save(checkpoints, 10)
    newest = save(checkpoints, 20)
    file = newest / ("checkpoint.json" if "seal" in damage else "state.safetensors")
    data = bytearray(file.read_bytes())
    if damage == "flip":
        data[-1] ^= 1
        file.write_bytes(data)
    elif damage == "truncate":
        file.write_bytes(data[:-3])
    elif damage == "empty seal":
        file.write_bytes(b"")
    else:
        file.unlink()
    with caplog.at_level(logging.WARNING):
        assert checkpoints.load().state["step"] == 10
    assert "step-000000000020" in caplog.text
    assert "Falling back" in caplog.text


def test_nothing_readable_is_an_error_for_people(tmp_path):
    checkpoints = store(tmp_path)
    path = save(checkpoints, 10)
    (path / "state.json").write_text("{")
    with pytest.raises(InputError, match="none of the 1 checkpoints"):
        checkpoints.load()


def test_a_format_of_the_future_is_refused(tmp_path):
    path = save(store(tmp_path), 10)
    seal = json.loads((path / "checkpoint.json").read_text())
    (path / "checkpoint.json").write_text(json.dumps({**seal, "format": 99}))
    with pytest.raises(InputError, match="format 99"):
        read_checkpoint(path)


def test_a_full_disk_leaves_the_last_good_checkpoint_alone(tmp_path):
    """A real write that fails for want of room: the process may not write files larger than this."""
    checkpoints = store(tmp_path)
    save(checkpoints, 10)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, before[1]))
    try:
        with pytest.raises(PaddockError, match="could not be written") as caught:
            save(checkpoints, 20, size=1_000_000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)
    assert os.strerror(errno.EFBIG) in str(caught.value)
    assert checkpoints.load().state["step"] == 10
    assert [path.name for path in checkpoints.folder.glob(".partial*")] == []


def test_a_folder_that_cannot_be_made_is_a_clear_error(tmp_path):
    (tmp_path / "checkpoints").write_text("a file where the folder should be")
    with pytest.raises(PaddockError, match="could not be written"):
        save(store(tmp_path), 10)


SPEC = Spec(
    observation={"observation": ArraySpec(shape=(4,), dtype="float32")},
    action=ArraySpec(shape=(), dtype="int64", choices=2),
)


def filled(buffer, count, start=0):
    for t in range(start, start + count):
        buffer.add(
            {
                "observation": {"observation": np.full((2, 4), t, np.float32)},
                "next_observation": {"observation": np.full((2, 4), t + 1, np.float32)},
                "action": np.zeros(2, np.int64),
                "reward": np.full(2, t, np.float32),
                "terminated": np.zeros(2, bool),
                "truncated": np.zeros(2, bool),
                "valid": np.ones(2, bool),
            }
        )
    return buffer


def replay(capacity=4000):
    config = UniformConfig(_target_="it", capacity=capacity, batch_size=8, segment_steps=200)
    return UniformBuffer(config, SPEC, 2)


def test_a_buffer_costs_its_new_data_and_comes_back_whole(tmp_path):
    checkpoints = store(tmp_path, keep_last=3)
    buffer = filled(replay(), 1537)
    first = save(checkpoints, 1, buffers={"replay": buffer})
    filled(buffer, 120, start=1537)
    second = save(checkpoints, 2, buffers={"replay": buffer})
    inodes = {file.stat().st_ino for file in (first / "buffers").rglob("*.safetensors")}
    files = list((second / "buffers").rglob("rows-*.safetensors"))
    written = [file for file in files if file.stat().st_ino not in inodes]
    assert len(files) > 10
    assert len(written) <= 3

    back = replay()
    checkpoints.load_buffer(checkpoints.load(), "replay", back)
    rows = np.arange(buffer.oldest, buffer.total)
    one, other = (b.gather(rows, np.zeros(len(rows), int)) for b in (buffer, back))
    assert one["reward"].tolist() == other["reward"].tolist()
    assert one["next_observation"]["observation"].tolist() == other["next_observation"]["observation"].tolist()


def test_thinning_out_never_breaks_a_linked_segment(tmp_path):
    checkpoints = store(tmp_path, keep_last=1, keep_best=0)
    buffer = replay()
    for step in range(1, 8):
        filled(buffer, 300, start=300 * (step - 1))
        save(checkpoints, step, buffers={"replay": buffer})
    assert names(checkpoints) == [7]
    back = replay()
    checkpoints.load_buffer(checkpoints.load(), "replay", back)
    assert back.total == 2100
    assert back.gather(np.array([back.oldest, 2099]), np.array([0, 1]))["reward"].tolist() == [100.0, 2099.0]
