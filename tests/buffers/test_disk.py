import os
import subprocess
import sys
from itertools import pairwise

import numpy as np
import torch

from paddock.buffers.disk import DiskBuffer, DiskConfig
from paddock.core.trees import open_tree, save_tree
from streams import SPEC, NaiveRows, stream


def make(folder, **options):
    settings = {"_target_": "it", "capacity": 180, "batch_size": 64, "segment_steps": 21, "folder": str(folder)}
    return DiskBuffer(DiskConfig(**settings, **options), SPEC, 3)


def test_transitions_have_the_true_next_observation(tmp_path):
    buffer, naive = make(tmp_path, sample_as="transitions"), NaiveRows()
    for step in stream(50):
        buffer.add(step)
        naive.add(step)
    known = {
        tuple(before["speed"]): (after, before["action"])
        for rows in naive.streams
        for before, after in pairwise(rows)
        if not after["is_first"]
    }
    batch = buffer.sample(300, generator=torch.Generator().manual_seed(0))
    assert batch["reward"].shape == (300,)
    for i in range(300):
        after, action = known[tuple(batch["observation"]["speed"][i].numpy())]
        assert np.array_equal(batch["next_observation"]["image"][i], after["image"])
        assert np.array_equal(batch["action"][i], action)
        assert batch["reward"][i] == after["reward"]
        assert batch["terminated"][i] == after["terminated"]
        assert batch["truncated"][i] == after["truncated"]
    assert batch["terminated"].any()
    assert batch["truncated"].any()


def test_only_what_fits_stays_on_the_disk(tmp_path):
    buffer = make(tmp_path)
    for step in stream(250):
        buffer.add(step)
    kept = len(list(buffer._storage.folder.glob("*.safetensors")))
    assert kept <= 3 * (60 // 7 + 2)
    assert len(buffer) == 180


def test_files_go_with_their_owner_and_after_a_kill_with_the_next_one(tmp_path):
    buffer = make(tmp_path)
    for step in stream(30):
        buffer.add(step)
    mine = buffer._storage.folder
    assert mine.is_dir()
    code = (
        "import os, sys; sys.path[:0] = [sys.argv[2], os.path.dirname(sys.argv[2])];"
        "from pathlib import Path; from test_disk import make, stream;"
        "b = make(Path(sys.argv[1])); [b.add(s) for s in stream(30)]; os.kill(os.getpid(), 9)"
    )
    here = os.path.dirname(__file__)
    killed = subprocess.run([sys.executable, "-c", code, str(tmp_path), here], check=False)
    assert killed.returncode == -9
    assert len(list(tmp_path.glob("replay-*"))) == 2
    other = make(tmp_path)
    assert {path.name for path in tmp_path.glob("replay-*")} == {mine.name, other._storage.folder.name}
    del buffer
    assert not mine.exists()


def test_a_mapped_tree_is_the_saved_one(tmp_path):
    random = np.random.default_rng(0)
    tree = {
        kind: random.integers(2, size=(3, 5)).astype(kind)
        for kind in ("bool", "uint8", "int16", "int64", "float32", "float64")
    }
    tree["empty"], tree["nothing"] = np.zeros((0, 4), np.float32), None
    save_tree(tmp_path, "it", tree)
    opened = open_tree(tmp_path, "it")
    for name in tree:
        assert np.array_equal(opened[name], tree[name])
    assert isinstance(opened["float32"], np.memmap)
    assert torch.from_numpy(opened["uint8"].copy()).dtype == torch.uint8
