"""Files of `torch.save`, read without torch's loader: the zip archives of today and the streams of before.

Memory follows the bytes of the file: entries of an archive have to be stored as they are, and a storage has to be as
long as its tensors say.
"""

from __future__ import annotations

import io
import zipfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from paddock.core.reading import DamagedError, read_bytes
from paddock.tmrl.arrays import TENSOR_RULES, Storage, storage_type
from paddock.tmrl.pickles import RefusedPickleError, Rules, read_pickle

MAGIC = 0x1950A86A20F9469CFC6C  # of the streams
PROTOCOL = 1001
LARGEST_POLICY = 512 * 2**20  # bytes
MOST_ENTRIES = 100_000


def read_torch_file(path: Path, *, limit: int = LARGEST_POLICY) -> Any:
    """What `torch.save` wrote: dictionaries, lists and tensors, and nothing that would have to be run."""
    data = read_bytes(path, limit=limit)
    try:
        return parse_torch(data)
    except RefusedPickleError as error:
        raise DamagedError(path, str(error)) from error


def parse_torch(data: bytes) -> Any:
    """As `read_torch_file`, from bytes; RefusedPickleError where they cannot be read."""
    return _read_archive(data) if data[:4] == b"PK\x03\x04" else read_stream(data)


def _read_archive(data: bytes) -> Any:
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            entries = {info.filename: info for info in archive.infolist()}
            if len(entries) > MOST_ENTRIES:
                raise RefusedPickleError(f"it has more than {MOST_ENTRIES:,} entries")
            if any(info.compress_type != zipfile.ZIP_STORED for info in entries.values()):
                raise RefusedPickleError("it is compressed, which torch never does")
            if sum(info.file_size for info in entries.values()) > len(data):
                raise RefusedPickleError("its entries are longer than the file")
            return _Archive(archive, entries).read()
    except (zipfile.BadZipFile, NotImplementedError, EOFError, RuntimeError, OSError) as error:
        raise RefusedPickleError("it is a damaged archive") from error


class _Archive:
    """One archive: a pickle, and a file for each storage."""

    def __init__(self, archive: zipfile.ZipFile, entries: dict[str, zipfile.ZipInfo]) -> None:
        self.archive, self.entries = archive, entries
        found = [name for name in entries if name.count("/") == 1 and name.endswith("/data.pkl")]
        if len(found) != 1:
            raise RefusedPickleError("it is an archive, and not one of torch's")
        self.root = found[0].removesuffix("data.pkl")
        self.storages: dict[str, Storage] = {}

    def read(self) -> Any:
        order = f"{self.root}byteorder"
        if order in self.entries and self.archive.read(order) != b"little":
            raise RefusedPickleError("its numbers are in big-endian order, which is not read")
        return read_pickle(self.archive.read(f"{self.root}data.pkl"), TENSOR_RULES, persistent=self.find)

    def find(self, identity: Any) -> Storage:
        key, dtype, count = _described(identity)
        if key not in self.storages:
            name = f"{self.root}data/{key}"
            if name not in self.entries:
                raise RefusedPickleError("it refers to numbers that are not in it")
            if self.entries[name].file_size != count * dtype.itemsize:
                raise RefusedPickleError("it has tensors over more or fewer bytes than are in it")
            self.storages[key] = Storage(dtype, count)
            self.storages[key].fill(self.archive.read(name))
        found = self.storages[key]
        if (found.dtype, found.count) != (dtype, count):
            raise RefusedPickleError("it describes the same numbers in two ways")
        return found


def read_stream(data: bytes, rules: Rules = TENSOR_RULES) -> Any:
    """The stream of torch before 1.6, which pickled storages still are: five pickles, then the numbers."""
    stream, plain = io.BytesIO(data), Rules(purpose="torch's header")
    magic, protocol = (read_pickle(stream, plain) for _ in range(2))
    if magic != MAGIC or protocol != PROTOCOL:
        raise RefusedPickleError("it is not a file of torch's")
    information = read_pickle(stream, plain)
    if not isinstance(information, dict) or not information.get("little_endian", True):
        raise RefusedPickleError("its numbers are in big-endian order, which is not read")
    begin = stream.tell()
    known = _StreamStorages()
    read_pickle(stream, rules, persistent=known.find)  # Which storages there are; their numbers come after it.
    keys = read_pickle(stream, plain)
    is_listed = isinstance(keys, list) and len(keys) <= MOST_ENTRIES and all(isinstance(key, str) for key in keys)
    if not is_listed or set(keys) != set(known.found):
        raise RefusedPickleError("it is damaged or not a file of torch's")
    for key in keys:
        known.fill(key, stream)
    stream.seek(begin)
    return read_pickle(stream, rules, persistent=known.find)


@dataclass
class _StreamStorages:
    found: dict[Any, Storage] = field(default_factory=dict)

    def find(self, identity: Any) -> Storage:
        key, dtype, count = _described(identity)
        return self.found.setdefault(key, Storage(dtype, count))

    def fill(self, key: Any, stream: io.BytesIO) -> None:
        storage = self.found[key]
        count = int.from_bytes(stream.read(8), "little")
        if count != storage.count:
            raise RefusedPickleError("it has tensors over more or fewer bytes than are in it")
        size = count * storage.dtype.itemsize
        data = stream.read(size)
        if len(data) != size:
            raise RefusedPickleError("it is cut short")
        storage.fill(data)


def _described(identity: Any) -> tuple[str, Any, int]:
    """Key, type and length of a storage, from what a pickle refers to it by."""
    if not isinstance(identity, tuple) or len(identity) not in (5, 6) or identity[0] != "storage":
        raise RefusedPickleError("it refers to something that is no storage of numbers")
    _, kind, key, _, count, *view = identity
    if not isinstance(key, str) or not isinstance(count, int) or count < 0 or any(one is not None for one in view):
        raise RefusedPickleError("it refers to a storage in a way that is not read")
    return key, storage_type(kind), count
