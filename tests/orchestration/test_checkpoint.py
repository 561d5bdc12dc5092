import errno
import json
import logging
import os
import resource
import signal
from pathlib import Path

import numpy as np
import pytest

from paddock.buffers.uniform import UniformBuffer, UniformConfig
from paddock.core.errors import InputError, PaddockError
from paddock.core.specs import ArraySpec, Spec
from paddock.orchestration.checkpoint import CheckpointConfig, CheckpointStore, read_checkpoint
from paddock.orchestration.seal import read_seal, write_seal


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


def test_many_checkpoints_at_one_step_load_the_last_saved(tmp_path):
    """An offline phase saves again and again while agent_steps stands still."""
    checkpoints = store(tmp_path, keep_last=2)
    for size in range(1, 13):
        path = save(checkpoints, 10, size=size)
        assert len(store(tmp_path).load().state["weights"]) == size
        assert (checkpoints.folder / "latest").resolve() == path
        assert (path / "state.json").is_file()
    assert len(checkpoints.all()) == 2
    numbers = [read_seal(path)["number"] for path in checkpoints.all()]
    assert numbers == [11, 12]


def test_checkpoints_at_one_step_keep_the_best_and_the_pinned(tmp_path):
    checkpoints = store(tmp_path, keep_last=2, keep_best=1, pin_every_steps=10)
    scores = [1.0, 9.0, 2.0, 3.0, None, None]
    saved = [save(checkpoints, 10, score) for score in scores]
    assert (checkpoints.folder / "best").resolve() == saved[1] == checkpoints.best()
    assert checkpoints.all() == [saved[0], saved[1], saved[4], saved[5]], "pinned, best, the last two"


def test_the_order_of_checkpoints_goes_on_over_resumes(tmp_path):
    """A run that fell back to an earlier step saves what is newer than what it left behind."""
    save(store(tmp_path, keep_last=3), 10)
    broken = save(store(tmp_path, keep_last=3), 20)
    (broken / "state.json").write_text("{")
    resumed = store(tmp_path, keep_last=2)
    assert resumed.load().state["step"] == 10
    save(resumed, 15)
    assert store(tmp_path).load().state["step"] == 15
    assert names(resumed) == [10, 15], "what is damaged makes room first"


def test_every_flip_in_a_seal_is_noticed(tmp_path, caplog):
    checkpoints = store(tmp_path, keep_last=3)
    save(checkpoints, 10)
    seal = save(checkpoints, 20, score=5.0) / "checkpoint.json"
    whole = seal.read_bytes()
    for at in range(len(whole)):
        seal.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        assert store(tmp_path).load().state["step"] == 10, f"the flip of {whole[at : at + 1]!r} at {at} was loaded"
    seal.write_bytes(whole)
    assert store(tmp_path).load().state["step"] == 20


def test_checkpoints_of_format_1_are_still_read_and_are_older_than_new_ones(tmp_path):
    checkpoints = store(tmp_path, keep_last=3)
    for step in (20, 10, 30):
        path = save(checkpoints, step)
        old = {name: value for name, value in read_seal(path).items() if name != "number"}
        (path / "checkpoint.json").write_text(json.dumps({**old, "format": 1}))
    assert names(checkpoints) == [10, 20, 30]
    assert checkpoints.load().state["step"] == 30
    save(checkpoints, 25)
    assert names(checkpoints) == [20, 30, 25]
    assert checkpoints.load().state["step"] == 25


def test_a_seal_cannot_name_files_outside_of_its_checkpoint(tmp_path):
    path = save(store(tmp_path), 10)
    for name in ("/dev/zero", "../../secret", "gone"):
        write_seal(path, {**read_seal(path), "files": {name: "0"}})
        with pytest.raises(InputError, match="is missing, or lies outside of it"):
            read_checkpoint(path)


def test_latest_never_dangles_while_checkpoints_are_saved_and_removed(tmp_path, monkeypatch):
    """Looked at after every change that is made to the folder."""
    checkpoints = store(tmp_path, keep_last=1, keep_best=0)
    save(checkpoints, 10)
    link, looks = checkpoints.folder / "latest", 0

    def watched(change):
        def changed(*arguments, **options):
            nonlocal looks
            result = change(*arguments, **options)
            assert (link / "checkpoint.json").is_file()
            looks += 1
            return result

        return changed

    for owner, name in ((Path, "rename"), (Path, "replace"), (Path, "symlink_to"), (Path, "unlink"), (os, "rmdir")):
        monkeypatch.setattr(owner, name, watched(getattr(owner, name)))
    for step in (10, 10, 20, 30):
        save(checkpoints, step)
    assert looks > 10


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
    write_seal(path, {**read_seal(path), "format": 99})
    with pytest.raises(InputError, match="format 99"):
        read_checkpoint(path)
    with pytest.raises(InputError, match="Paddock that wrote it"):  # Nothing older is taken in its place.
        store(tmp_path).load()


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


def test_a_segment_of_a_damaged_checkpoint_is_not_linked_into_the_next(tmp_path):
    checkpoints = store(tmp_path, keep_last=3)
    buffer = filled(replay(), 300)
    save(checkpoints, 1, buffers={"replay": buffer})
    newest = save(checkpoints, 2, buffers={"replay": filled(buffer, 300, start=300)})
    (file,) = newest.glob("buffers/replay/rows-*4.safetensors")
    file.write_bytes(file.read_bytes()[:-1] + b"!")

    resumed, back = store(tmp_path), replay()
    resumed.load_buffer(resumed.load(), "replay", back)
    save(resumed, 2, buffers={"replay": filled(back, 300, start=300)})
    assert store(tmp_path).load().state["step"] == 2


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
