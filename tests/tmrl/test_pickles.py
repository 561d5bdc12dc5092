"""TMRL's pickles are read as data: nothing runs, and memory follows the bytes of the file."""

from __future__ import annotations

import collections
import io
import os
import pickle
import resource
import struct
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch

from paddock.core.reading import DamagedError
from paddock.tmrl.arrays import ARRAY_RULES, TENSOR_RULES
from paddock.tmrl.pickles import Holder, RefusedPickleError, Rules, read_pickle
from paddock.tmrl.torch_files import parse_torch, read_torch_file

PLAIN = Rules()


class Running:
    """Pickles to a call of os.system, or whatever else is given."""

    def __init__(self, *call) -> None:
        self.call = call

    def __reduce__(self):
        return self.call[0], tuple(self.call[1:])


@pytest.mark.parametrize("protocol", range(6))
def test_pickled_arrays_are_read_in_every_protocol(protocol):
    points = np.random.default_rng(1).normal(size=(25, 3))
    for array in (points, np.asfortranarray(points), points.astype(np.float32), np.arange(6, dtype=np.uint8)):
        found = read_pickle(pickle.dumps(array, protocol), ARRAY_RULES).array
        assert found.dtype == array.dtype
        np.testing.assert_array_equal(found, array)


def test_pickled_arrays_with_names_of_before_numpy_2_are_read():
    array = np.arange(12.0).reshape(4, 3)
    old = pickle.dumps(array, 2).replace(b"numpy._core", b"numpy.core")
    np.testing.assert_array_equal(read_pickle(old, ARRAY_RULES).array, array)


@pytest.mark.parametrize("protocol", range(6))
def test_pickled_plain_values_are_read(protocol):
    value = {"a": [1, 2.5, None, True], "b": (b"x", "y", -(2**70)), 3: {4: set()}, "long": list(range(3_000))}
    assert read_pickle(pickle.dumps(value, protocol), Rules(names=frozenset({"builtins.set"}), calls={
        "builtins.set": lambda values: set(values), "__builtin__.set": lambda values: set(values),
        "_codecs.encode": lambda text, _: text.encode("latin-1"),
    })) == value  # fmt: skip


@pytest.mark.parametrize("protocol", range(6))
@pytest.mark.parametrize("rules", [PLAIN, ARRAY_RULES, TENSOR_RULES, Rules(inert=("tmrl.", "torch.nn."))])
def test_malicious_pickle_runs_nothing(tmp_path, protocol, rules):
    mark = tmp_path / "ran"
    for call in ((os.system, f"touch {mark}"), (eval, f"open({str(mark)!r}, 'w')"), (Path.touch, mark)):
        hidden = collections.OrderedDict(weights=Running(*call))
        for value in (Running(*call), [Running(*call)], hidden):
            with pytest.raises(RefusedPickleError, match="names"):
                read_pickle(pickle.dumps(value, protocol), rules)
    assert not mark.exists()


def test_pickle_cannot_call_what_was_called_before():
    """A Holder or a result is no function, and a mentioned class is not called."""
    rules = Rules(names=frozenset({"numpy.ndarray"}), inert=("tmrl.",))
    twice = b"\x80\x02ctmrl.x\nf\n)R)R."
    with pytest.raises(RefusedPickleError, match="not a name"):
        read_pickle(twice, rules)
    with pytest.raises(RefusedPickleError, match="may only be mentioned"):
        read_pickle(b"\x80\x02cnumpy\nndarray\n)R.", rules)


def test_objects_of_other_classes_become_holders():
    data = b"\x80\x02ctmrl.training\nAgent\n)\x81}U\x05alphaG?\xe0\x00\x00\x00\x00\x00\x00sb."
    found = read_pickle(data, Rules(inert=("tmrl.",)))
    assert isinstance(found, Holder)
    assert found.name == "tmrl.training.Agent"
    assert found.attributes == {"alpha": 0.5}


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x80\x04",
        b"not a pickle",
        pickle.dumps(np.zeros(100))[:-60],
        b"\x80\x02" + b"\x85" + b".",  # a tuple of nothing
        b"\x80\x02h\x07.",  # a memo that is not there
        b"\x80\x02(.",  # ends at a mark
        b"\x80\x02\x82\x01.",  # a registered extension
        b"\x80\x02]K\x01]a.",  # two values are left
        b"\x80\x05\x97.",  # a buffer from outside
        b"\x80\x02X\xff\xff\xff\x7fabc.",  # text of 2 GB that is not there
        b"\x80\x04\x8d\xff\xff\xff\xff\xff\xff\xff\x7f.",
        b"L" + b"9" * 100_000 + b"L\n.",
    ],
)
def test_damaged_pickles_are_refused_in_one_sentence(data):
    with pytest.raises(RefusedPickleError) as refused:
        read_pickle(data, ARRAY_RULES)
    assert "\n" not in str(refused.value)


def test_deeply_nested_pickles_are_refused():
    tuples = b"\x80\x02)" + b"\x85" * 100_000 + b"."
    lists = b"\x80\x02" + b"]" * 100_000 + b"a" * 99_999 + b"."
    marks = b"\x80\x02" + b"(" * 2_000_000
    down = b"\x80\x02]q\x00" + b"]q\x01" + b"a" + b"h\x01" * 1 + b"0" + b"."  # stays shallow
    for data in (tuples, lists, marks):
        with pytest.raises(RefusedPickleError, match=r"nested|values under way"):
            read_pickle(data, PLAIN)
    assert read_pickle(down, PLAIN) == [[]]


DOUBLED = b"K\x01" + b"2\x86" * 60  # a tuple whose text, hash and size written out are those of 2 ** 60 numbers


@pytest.mark.parametrize(
    "data",
    [
        b"}" + DOUBLED + b"K\x01s.",  # as a key
        b"(" + DOUBLED + b"K\x01d.",
        b"\x8f(" + DOUBLED + b"\x90.",  # in a set
        b"(" + DOUBLED + b"\x91.",
    ],
)
def test_values_that_grow_when_they_are_written_out_are_refused_as_keys(data):
    with pytest.raises(RefusedPickleError, match="keys"):
        read_pickle(b"\x80\x04" + data, ARRAY_RULES)


def test_values_that_grow_when_they_are_written_out_are_no_type():
    kind = read_pickle(b"\x80\x04cnumpy\ndtype\n" + DOUBLED + b"\x85R.", ARRAY_RULES)
    with pytest.raises(RefusedPickleError, match="type"):
        assert kind.dtype


def test_lists_that_contain_themselves_end():
    found = read_pickle(b"\x80\x02]q\x00h\x00a.", PLAIN)
    assert found[0] is found


def huge_array(shape) -> bytes:
    """An array of eight bytes that says it had another shape."""
    whole = pickle.dumps(np.zeros((7,)), 2)
    return whole.replace(b"K\x07\x85", pickle.dumps(shape, 2)[2:-1].split(b"q")[0], 1)


@pytest.mark.parametrize("shape", [(10**15,), (2**40, 2**40), (-7,), (0,), (1.5,)])
def test_pickled_arrays_of_other_sizes_than_their_bytes_are_refused(shape):
    data = huge_array(shape)
    assert data != pickle.dumps(np.zeros((7,)), 2)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(RefusedPickleError):
        read_pickle(data, ARRAY_RULES)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000  # kB


def test_pickled_arrays_of_objects_are_refused():
    with pytest.raises(RefusedPickleError):
        read_pickle(pickle.dumps(np.array([1, "x", None], object)), ARRAY_RULES)


def test_text_is_not_multiplied_by_encoding():
    text = "x" * 100_000
    head = b"\x80\x02]q\x00X" + struct.pack("<I", len(text)) + text.encode() + b"q\x01" + b"0"
    once = b"c_codecs\nencode\nh\x01X\x06\x00\x00\x00latin1\x86Ra"
    with pytest.raises(RefusedPickleError, match="more bytes"):
        read_pickle(head + once * 1_000 + b".", ARRAY_RULES)


def saved(value, **options) -> bytes:
    stream = io.BytesIO()
    torch.save(value, stream, **options)
    return stream.getvalue()


def weights() -> dict[str, torch.Tensor]:
    torch.manual_seed(0)
    module = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4))
    return module.state_dict()


@pytest.mark.parametrize("is_zip", [True, False])
def test_torch_files_are_read_as_torch_reads_them(is_zip):
    tensors = weights()
    tensors["transposed"] = torch.arange(6.0).reshape(2, 3).T
    tensors["part"] = torch.arange(10)[2:5]
    tensors["half"] = torch.ones(2, dtype=torch.bfloat16)
    tensors["none"] = torch.zeros(0, 3)
    found = parse_torch(saved(tensors, _use_new_zipfile_serialization=is_zip))
    assert list(found) == list(tensors)
    for name, tensor in tensors.items():
        assert found[name].dtype == tensor.dtype
        assert torch.equal(found[name], tensor), name


@pytest.mark.parametrize("is_zip", [True, False])
def test_malicious_torch_file_runs_nothing(tmp_path, is_zip):
    mark = tmp_path / "ran"
    value = {**weights(), "log_std_layer.bias": Running(os.system, f"touch {mark}")}
    path = tmp_path / "evil.tmod"
    path.write_bytes(saved(value, _use_new_zipfile_serialization=is_zip))
    with pytest.raises(DamagedError, match=r"evil\.tmod' cannot be read: it names 'posix\.system'"):
        read_torch_file(path)
    assert not mark.exists()


def rezipped(data: bytes, change, compression=zipfile.ZIP_STORED) -> bytes:
    """An archive of torch's with changed entries."""
    stream = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(stream, "w", compression) as new:
        for name in old.namelist():
            content = change(name, old.read(name))
            if content is not None:
                new.writestr(name, content)
    return stream.getvalue()


def test_torch_files_whose_tensors_reach_beyond_their_numbers_are_refused():
    good = saved({"w": torch.zeros(7)})

    def larger(name, content):
        return content.replace(b"K\x07\x85", b"\x8a\x07\x00\x00\x00\x00\x00\x00\x01\x85") if "pkl" in name else content

    def shorter(name, content):
        return content[:4] if "/data/" in name else content

    def missing(name, content):
        return None if "/data/" in name else content

    def same(name, content):
        return content

    assert torch.equal(parse_torch(rezipped(good, same))["w"], torch.zeros(7))
    for change in (larger, shorter, missing):
        with pytest.raises(RefusedPickleError):
            parse_torch(rezipped(good, change))
    with pytest.raises(RefusedPickleError, match="compressed"):
        parse_torch(rezipped(saved({"w": torch.zeros(10**6)}), same, zipfile.ZIP_DEFLATED))
    for cut in (10, len(good) // 2, len(good) - 5):
        with pytest.raises(RefusedPickleError):
            parse_torch(good[:cut])


def test_torch_streams_that_are_cut_short_or_say_more_are_refused():
    good = saved({"w": torch.zeros(7)}, _use_new_zipfile_serialization=False)
    for cut in (3, 40, len(good) // 2, len(good) - 4):
        with pytest.raises(RefusedPickleError):
            parse_torch(good[:cut])


def test_whole_modules_are_refused_where_weights_are_expected():
    with pytest.raises(RefusedPickleError, match=r"torch\.nn\.modules\.linear\.Linear"):
        parse_torch(saved(torch.nn.Linear(2, 2)))


def test_files_beyond_the_limit_are_refused(tmp_path):
    path = tmp_path / "large.tmod"
    path.write_bytes(saved({"w": torch.zeros(1_000)}))
    with pytest.raises(DamagedError, match="more than 1,000 bytes"):
        read_torch_file(path, limit=1_000)
