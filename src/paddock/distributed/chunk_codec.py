"""Chunks of transitions as messages: arrays through compressors into a header and raw bytes, and back.

Whatever arrives is checked against the trainer's own Spec before it reaches a buffer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np

from paddock.core.errors import PaddockError
from paddock.core.specs import Spec
from paddock.distributed.chunk_files import OutgoingChunk, StoredChunk
from paddock.distributed.compressors import Compressor, first_difference
from paddock.distributed.wire.arrays import Packer, unpack
from paddock.distributed.wire.messages import MOST_STEPS, ProtocolError, chunk_limit
from paddock.rollout import chunks
from paddock.rollout.chunks import Chunk

RAW = "raw."  # before the names of arrays that are sent as they are, to be compared


class ChunkNote(msgspec.Struct, frozen=True):
    """What a chunk says of itself.

    continues: its first step follows the last one of the worker's chunk before. episodes, steps: of each environment at
    its first step, so that every transition has a name: worker, environment, episode, step. ended: episodes that ended
    in it; metrics: their means. env_frames: simulator ticks.
    """

    length: int
    num_envs: int
    finals: int
    continues: bool
    episodes: list[int]
    steps: list[int]
    ended: int
    metrics: dict[str, float]
    env_frames: int
    arrays: bytes


class UnfitChunk(PaddockError):
    """A chunk that this trainer cannot use, in a sentence."""


class MixedSamples(PaddockError):
    """Compressed transitions that are not what they were before: a compressor is wrong."""


@dataclass(frozen=True)
class ReceivedChunk:
    """A chunk as it was collected, whose it is, and which version of the weights acted."""

    worker: str
    sequence: int
    version: int
    note: ChunkNote
    chunk: Chunk


class ChunkCodec:
    """Packs what a worker collected, unpacks what a trainer received. Both have the same Spec and compressors."""

    def __init__(
        self,
        spec: Spec,
        num_envs: int,
        compressors: Sequence[Compressor] = (),
        *,
        compress: bool = True,
        check_samples: bool = False,
    ) -> None:
        self._spec, self._num_envs = spec, num_envs
        self._compressors = list(compressors)
        self._packer = Packer(compress=compress)
        self._check_samples = check_samples

    def pack(self, chunk: Chunk, version: int, **note: Any) -> OutgoingChunk:
        """A chunk ready to be sent. note: the fields of ChunkNote that the arrays do not tell."""
        plain = chunks.flat(chunk)
        small = dict(plain)
        for compressor in self._compressors:
            small = compressor.compress(small)
        if self._check_samples:
            small |= {f"{RAW}{name}": array for name, array in plain.items()}
        arrays, body = self._packer.pack(small)
        length, width = chunk["reward"].shape
        header = ChunkNote(length=length, num_envs=width, finals=len(chunk["final_index"]), arrays=arrays, **note)
        return OutgoingChunk(length * width, version, msgspec.msgpack.encode(header), body)

    def unpack(self, stored: StoredChunk) -> ReceivedChunk:
        """What a chunk holds. Raises UnfitChunk, or MixedSamples where compressing and back is not the same."""
        try:
            note = msgspec.msgpack.decode(stored.header, type=ChunkNote)
            arrays = self._arrays(note, stored)
        except (msgspec.DecodeError, ProtocolError, ValueError) as error:
            raise UnfitChunk(f"a chunk cannot be read: {error}.") from error
        chunk = chunks.nested(arrays)
        if (problem := chunks.problem_of(chunk, self._spec, self._num_envs)) is not None:
            raise UnfitChunk(f"a chunk cannot be used: {problem}.")
        return ReceivedChunk(stored.worker, stored.sequence, stored.version, note, chunk)

    def _arrays(self, note: ChunkNote, stored: StoredChunk) -> dict[str, np.ndarray]:
        steps = note.length * note.num_envs
        if note.num_envs != self._num_envs or not 0 <= steps <= MOST_STEPS or not 0 <= note.finals <= steps:
            raise ValueError(
                f"it holds {note.length} steps of {note.num_envs} environments, and this run's workers have "
                f"{self._num_envs} (environment.num_envs)"
            )
        if len(note.episodes) != note.num_envs or len(note.steps) != note.num_envs:
            raise ValueError("it does not say which episodes its steps belong to")
        arrays = unpack(note.arrays, stored.body, limit=chunk_limit(self._spec, steps))
        sent = {name.removeprefix(RAW): array for name, array in arrays.items() if name.startswith(RAW)}
        arrays = {name: array for name, array in arrays.items() if not name.startswith(RAW)}
        for compressor in reversed(self._compressors):
            arrays = compressor.decompress(arrays)
        self._check_layout(arrays, note)
        if sent and (difference := first_difference(sent, arrays)) is not None:
            raise MixedSamples(
                f"chunk {stored.sequence} of worker {stored.worker}: {difference}. A compressor "
                "(experience.compressors) does not give back what it took."
            )
        return arrays

    def _check_layout(self, arrays: Mapping[str, np.ndarray], note: ChunkNote) -> None:
        expected = chunks.layout(self._spec, note.length, note.num_envs, note.finals)
        for name in sorted(expected.keys() | arrays.keys()):
            if name not in arrays:
                raise ValueError(f"there is no '{name}' in it")
            if name not in expected:
                raise ValueError(f"'{name}' does not belong to a chunk")
            given = (arrays[name].shape, str(arrays[name].dtype))
            if given != expected[name]:
                raise ValueError(f"'{name}' is {given[1]}{list(given[0])} instead of {expected[name]}")
