"""TMRL's `reward.pkl`, a pickled array of points, from and to a trajectory."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np

from paddock.core.errors import InputError
from paddock.core.files import replace_file
from paddock.core.reading import DamagedError, read_bytes
from paddock.environments.trackmania.trajectory import Trajectory
from paddock.tmrl.arrays import ARRAY_RULES, PickledArray
from paddock.tmrl.pickles import RefusedPickleError, read_pickle

LARGEST_FILE = 64 * 2**20  # bytes


def read_reward(path: Path) -> Trajectory:
    """The points of a `reward.pkl` as a trajectory."""
    data = read_bytes(path, limit=LARGEST_FILE)
    try:
        found = read_pickle(data, ARRAY_RULES)
        if not isinstance(found, PickledArray):
            raise RefusedPickleError("it holds something else than one array")
        return Trajectory(found.array, name=path.stem)
    except RefusedPickleError as error:
        raise DamagedError(path, str(error)) from error
    except InputError as error:
        raise DamagedError(path, str(error).rstrip(".")) from error


def write_reward(trajectory: Trajectory, path: Path) -> None:
    """Write a `reward.pkl` that TMRL loads with any version of NumPy."""
    replace_file(path, pickled_points(trajectory.points))


def pickled_points(points: np.ndarray) -> bytes:
    """A float64 array [N, 3] as the pickle that NumPy before version 2 writes, which later ones read, too."""
    data = np.ascontiguousarray(points, "<f8").tobytes()
    shape = b"J" + struct.pack("<i", len(points)) + b"K\x03\x86"
    kind = b"cnumpy\ndtype\nX\x02\x00\x00\x00f8\x89\x88\x87R" + (
        b"(K\x03X\x01\x00\x00\x00<NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"
    )
    made = b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85C\x01b\x87R"
    state = b"(K\x01" + shape + kind + b"\x89B" + struct.pack("<I", len(data)) + data + b"t"
    return b"\x80\x04" + made + state + b"b."
