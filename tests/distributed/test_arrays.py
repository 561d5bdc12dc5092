"""Arrays on the wire: equal after the way there, views instead of copies, and refused before memory is taken."""

from __future__ import annotations

import math
import tracemalloc

import msgspec
import numpy as np
import pytest

from paddock.distributed.wire import arrays as wire
from paddock.distributed.wire.messages import ITEM_SIZES, ProtocolError


def sent(packed: wire.Packed) -> memoryview:
    return memoryview(b"".join(packed.body))


def some_arrays(seed: int = 0) -> dict[str, np.ndarray]:
    random = np.random.default_rng(seed)
    found = {}
    for number, dtype in enumerate(ITEM_SIZES):
        shape = tuple(random.integers(0, 5, random.integers(0, 4)))
        found[f"part {number}"] = (100 * random.random(shape)).astype(dtype)
    return found


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("compress", [False, True])
def test_arrays_travel_unchanged(seed, compress):
    before = some_arrays(seed)
    packed = wire.Packer(compress=compress).pack(before)
    after = wire.unpack(packed.header, sent(packed))
    assert list(after) == list(before)
    for name, array in before.items():
        assert after[name].dtype == array.dtype
        np.testing.assert_array_equal(after[name], array)
        assert not after[name].flags.writeable


def test_arrays_are_views_of_the_body():
    packed = wire.pack({"big": np.zeros((512, 1024), np.float32)})
    body = sent(packed)
    tracemalloc.start()
    wire.unpack(packed.header, body)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 100_000


def test_arrays_that_are_not_contiguous_travel_unchanged():
    grid = np.arange(24.0).reshape(4, 6)
    packed = wire.pack({"columns": grid[:, ::2], "turned": grid.T, "single": np.float32(3.0) * np.ones(())})
    after = wire.unpack(packed.header, sent(packed))
    np.testing.assert_array_equal(after["columns"], grid[:, ::2])
    np.testing.assert_array_equal(after["turned"], grid.T)
    assert after["single"].shape == ()


def test_arrays_are_compressed_only_where_it_pays():
    random = np.random.default_rng(0)
    noise = {"noise": random.integers(0, 256, 100_000).astype(np.uint8)}
    flat = {"flat": np.zeros(100_000, np.uint8)}
    packer = wire.Packer()
    assert packer.pack(flat).nbytes < 1_000
    assert wire.Packer().pack(noise).nbytes == 100_000
    for _ in range(wire.TEST_EVERY - 1):
        packer.pack(noise)
    assert packer.pack(noise).nbytes == 100_000, "tried again after a while, and remembered"


def test_arrays_of_the_expected_layout_are_taken():
    layout = {"rays": wire.Field("float32", ("T", 4, 19)), "done": wire.Field("bool", ("T", 4))}
    packed = wire.pack({"rays": np.zeros((5, 4, 19), np.float32), "done": np.zeros((5, 4), bool)})
    assert wire.unpack(packed.header, sent(packed), layout)["rays"].shape == (5, 4, 19)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"rays": np.zeros((5, 4, 19), np.float64), "done": np.zeros((5, 4), bool)}, "dtype float64, expected float32"),
        ({"rays": np.zeros((5, 4, 18), np.float32), "done": np.zeros((5, 4), bool)}, r"shape \[5, 4, 18\]"),
        ({"rays": np.zeros((5, 4, 19), np.float32), "done": np.zeros((6, 4), bool)}, r"'done' has the shape \[6, 4\]"),
        ({"rays": np.zeros((5, 4, 19), np.float32)}, "done missing, none unknown"),
        (
            {"rays": np.zeros((5, 4, 19), np.float32), "done": np.zeros((5, 4), bool), "x": np.zeros(1)},
            "none missing, x unknown",
        ),
        (
            {"rays": np.full((5, 4, 19), np.nan, np.float32), "done": np.zeros((5, 4), bool)},
            "'rays' has a NaN or an infinite number",
        ),
    ],
)
def test_arrays_of_another_layout_are_refused(given, words):
    layout = {"rays": wire.Field("float32", ("T", 4, 19)), "done": wire.Field("bool", ("T", 4))}
    packed = wire.pack(given)
    with pytest.raises(ProtocolError, match=words):
        wire.unpack(packed.header, sent(packed), layout, finite=True)


@pytest.mark.parametrize(
    ("header", "words"),
    [
        ([4, [["a", "object", [1], 0]]], "'object', which does not travel"),
        ([4, [["a", "float32", [-1], 0]]], "cannot be read"),
        ([4, [["a", "float32", [2**39, 2**39], 0]]], "need 1,208,925,"),
        ([2**30, [["a", "uint8", [2**30], 0]]], "a body of 4 bytes came for arrays of 1,073,741,824"),
        ([2**40, [["a", "uint8", [2**40], 0]]], "cannot be read"),
        ([4, [["a", "float32", [1], 16]]], "does not lie behind"),
        ([4, [["a", "float32", [1], 0], ["a", "float32", [1], 0]]], "twice"),
        ([2**30, [["a", "uint8", [2**30], 0]], "zstd"], "cannot be decompressed|another size"),
        ([4, [["a", "uint8", [4], 0]], "pickle"], "cannot be read"),
    ],
)
def test_arrays_with_a_hostile_header_are_refused_without_taking_memory(header, words):
    tracemalloc.start()
    with pytest.raises(ProtocolError, match=words):
        wire.unpack(msgspec.msgpack.encode(header), memoryview(b"abcd"))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2**20


def test_arrays_that_unpack_to_more_than_announced_are_refused():
    bomb = wire.Packer().pack({"a": np.zeros(50 * 2**20, np.uint8)})
    assert bomb.nbytes < 2**16
    small = msgspec.msgpack.encode([1_000, [["a", "uint8", [1_000], 0]], "zstd"])
    with pytest.raises(ProtocolError, match="another size"):
        wire.unpack(small, sent(bomb))
    with pytest.raises(ProtocolError, match="at most 1,000 are allowed"):
        wire.unpack(bomb.header, sent(bomb), limit=1_000)


def test_arrays_from_random_headers_are_refused_or_empty():
    random = np.random.default_rng(1)
    for _ in range(3_000):
        with pytest.raises(ProtocolError):
            wire.unpack(random.bytes(int(random.integers(0, 60))), memoryview(random.bytes(16)))


def test_arrays_lie_aligned():
    before = {"a": np.ones(3, np.uint8), "b": np.ones(2, np.float64), "c": np.ones(1, np.int16)}
    described = msgspec.msgpack.decode(wire.pack(before).header)
    assert all(entry[3] % wire.ALIGNMENT == 0 for entry in described[1])
    assert described[0] == 32 + math.prod((1,)) * 2
