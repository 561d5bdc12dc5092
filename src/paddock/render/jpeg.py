"""Pictures as JPEG files."""

from __future__ import annotations

import io

import numpy as np
from numpy.typing import NDArray
from PIL import Image

QUALITY = 80


def to_jpeg(picture: NDArray[np.uint8]) -> bytes:
    """A picture [height, width, 3] as the bytes of a JPEG file."""
    file = io.BytesIO()
    Image.fromarray(picture).save(file, "JPEG", quality=QUALITY)
    return file.getvalue()
