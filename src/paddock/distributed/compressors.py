"""Smaller chunks without a loss: what a trainer can work out again is not sent.

A compressor takes the flat arrays of a chunk (`rollout.chunks.flat`), replaces some of them by smaller ones under other
names, and gives them back exactly in `decompress`. One of your own is a class with these two methods and a `config`.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Any, Literal, Protocol

import numpy as np
from PIL import Image
from pydantic import Field

from paddock.config.schema import TargetSchema

Arrays = dict[str, np.ndarray]
OBSERVATION = "observation."
LARGEST_PICTURE = 4096 * 4096  # pixels


class Compressor(Protocol):
    """Replaces arrays of a chunk by smaller ones, and the other way round."""

    def compress(self, arrays: Arrays) -> Arrays:
        """The arrays that travel."""

    def decompress(self, arrays: Arrays) -> Arrays:
        """The arrays as they were. Raises ValueError where these cannot come from `compress`."""


class HistoryConfig(TargetSchema):
    """part: of the observation, whose first axis is time. newest: which end of that axis is the present."""

    part: str
    newest: Literal["first", "last"] = "last"


class History:
    """Sends the newest entry of a stack (of images, lidars, actions), and whole stacks only where one does not follow
    from the one before: at a chunk's beginning and at an episode's."""

    def __init__(self, config: HistoryConfig) -> None:
        self._name = f"{OBSERVATION}{config.part}"
        self._newest = -1 if config.newest == "last" else 0

    def compress(self, arrays: Arrays) -> Arrays:
        stack = _required(arrays, self._name)
        if stack.ndim < 3 or stack.shape[2] < 2:
            return arrays
        older, kept = self._older(stack[1:]), self._kept(stack[:-1])
        follows = np.zeros(stack.shape[:2], bool)
        follows[1:] = (older == kept).reshape(*follows[1:].shape, -1).all(-1)
        index = np.argwhere(~follows)
        small = {name: array for name, array in arrays.items() if name != self._name}
        small[f"{self._name}.newest"] = np.ascontiguousarray(stack[:, :, self._newest])
        small[f"{self._name}.whole"] = stack[index[:, 0], index[:, 1]]
        small[f"{self._name}.whole_index"] = index.astype(np.int32)
        return small

    def decompress(self, arrays: Arrays) -> Arrays:
        if self._name in arrays:
            return arrays
        newest, whole, index = (_required(arrays, f"{self._name}.{one}") for one in ("newest", "whole", "whole_index"))
        lead, depth = newest.shape[:2], whole.shape[1] if whole.ndim > 1 else 0
        if whole.shape != (len(index), depth, *newest.shape[2:]) or index.ndim != 2 or index.shape[1] != 2:
            raise ValueError(f"the history '{self._name}' is not in one piece")
        if len(index) and not ((index >= 0) & (index < lead)).all():
            raise ValueError(f"the history '{self._name}' begins at steps that are not there")
        stack = np.empty((*lead, depth, *newest.shape[2:]), newest.dtype)
        starts = np.searchsorted(index[:, 0], np.arange(lead[0] + 1))
        for t in range(lead[0]):
            if t:
                self._older(stack[t : t + 1])[:] = self._kept(stack[t - 1 : t])
            stack[t][:, self._newest] = newest[t]
            which = slice(starts[t], starts[t + 1])
            stack[t, index[which, 1]] = whole[which]
        used = {f"{self._name}.{one}" for one in ("newest", "whole", "whole_index")}
        return {**{name: array for name, array in arrays.items() if name not in used}, self._name: stack}

    def _older(self, stack: np.ndarray) -> np.ndarray:
        """All entries but the newest one, of [T, n, depth, ...]."""
        return stack[:, :, :-1] if self._newest == -1 else stack[:, :, 1:]

    def _kept(self, stack: np.ndarray) -> np.ndarray:
        """All entries that the next stack still holds."""
        return stack[:, :, 1:] if self._newest == -1 else stack[:, :, :-1]


class ImagesConfig(TargetSchema):
    """part: of the observation: uint8 images [height, width] or [height, width, 1 or 3], or what `History` left of
    them. format: png loses nothing; jpeg does, and is far smaller. quality: of jpeg."""

    part: str
    format: Literal["png", "jpeg"] = "png"
    quality: int = Field(default=90, ge=1, le=100)


class Images:
    """Sends images as PNG or JPEG."""

    def __init__(self, config: ImagesConfig) -> None:
        self._config = config
        self._name = f"{OBSERVATION}{config.part}"

    def compress(self, arrays: Arrays) -> Arrays:
        name = self._name if self._name in arrays else f"{self._name}.newest"
        images = _required(arrays, name)
        if (
            images.dtype != np.uint8
            or images.ndim not in (4, 5)
            or (images.ndim == 5 and images.shape[4] not in (1, 3))
        ):
            raise ValueError(f"'{name}' is not made of images [height, width] or [height, width, 1 or 3] of uint8")
        files = [self._encode(image) for image in images.reshape(-1, *images.shape[2:])]
        small = {other: array for other, array in arrays.items() if other != name}
        small[f"{name}.files"] = np.frombuffer(b"".join(files), np.uint8)
        small[f"{name}.sizes"] = np.array([len(file) for file in files], np.int64)
        small[f"{name}.shape"] = np.array(images.shape, np.int64)
        return small

    def decompress(self, arrays: Arrays) -> Arrays:
        name = self._name if f"{self._name}.files" in arrays else f"{self._name}.newest"
        files, sizes, lengths = (_required(arrays, f"{name}.{one}") for one in ("files", "sizes", "shape"))
        shape = tuple(int(length) for length in lengths)
        if len(shape) not in (4, 5) or min(shape) < 0 or shape[0] * shape[1] != len(sizes) or (sizes < 0).any():
            raise ValueError(f"the images of '{name}' are not as many as they should be")
        if sizes.sum() != len(files) or shape[2] * shape[3] > LARGEST_PICTURE:
            raise ValueError(f"the images of '{name}' are not of the size they should be")
        images = np.empty((len(sizes), *shape[2:]), np.uint8)
        ends = np.cumsum(sizes)
        for image, start, stop in zip(images, ends - sizes, ends, strict=True):
            self._decode_into(image, files[start:stop].tobytes())
        used = {f"{name}.{one}" for one in ("files", "sizes", "shape")}
        kept = {other: array for other, array in arrays.items() if other not in used}
        return {**kept, name: images.reshape(shape)}

    def _encode(self, image: np.ndarray) -> bytes:
        file = io.BytesIO()
        flat = image[..., 0] if image.ndim == 3 and image.shape[2] == 1 else image
        options: dict[str, Any] = {"quality": self._config.quality} if self._config.format == "jpeg" else {}
        Image.fromarray(flat).save(file, self._config.format, **options)
        return file.getvalue()

    def _decode_into(self, image: np.ndarray, file: bytes) -> None:
        height, width = image.shape[:2]
        try:
            with Image.open(io.BytesIO(file), formats=[self._config.format]) as picture:
                if picture.size != (width, height):
                    raise ValueError(f"an image is {picture.size} large instead of {(width, height)}")
                decoded = np.asarray(picture)
        except (OSError, SyntaxError) as error:
            raise ValueError(f"an image cannot be read: {error}") from error
        image[:] = decoded.reshape(image.shape)


def first_difference(sent: Mapping[str, np.ndarray], rebuilt: Mapping[str, np.ndarray]) -> str | None:
    """The first place where arrays that were rebuilt differ from those that were sent beside them; None for none."""
    for name, array in sent.items():
        other = rebuilt.get(name)
        if other is None:
            return f"'{name}' is missing"
        if array.shape != other.shape or array.dtype != other.dtype:
            return f"'{name}' is {other.dtype}{list(other.shape)} instead of {array.dtype}{list(array.shape)}"
        places = np.argwhere(array != other)
        if len(places):
            place = tuple(int(index) for index in places[0])
            return f"'{name}' differs at {list(place)}: {other[place]} instead of {array[place]}"
    return None


def _required(arrays: Mapping[str, np.ndarray], name: str) -> np.ndarray:
    if name not in arrays:
        raise ValueError(f"there is no '{name}' in it")
    return arrays[name]
