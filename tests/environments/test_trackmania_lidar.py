"""The lidar of TrackMania's pictures against a reference written from its definition alone."""

from math import cos, pi, sin

import numpy as np
import pytest

from paddock.environments.trackmania.lidar import PixelLidar

SIZES = [(488, 958), (128, 256), (127, 255), (301, 517), (64, 64), (99, 402)]


def reference(picture, threshold=55):
    """Walks every beam pixel by pixel; also counts samples."""
    height, width, _ = picture.shape
    values, counts = [], []
    for degrees in range(90, 271, 10):
        angle = degrees * pi / 180
        hit, count, distance = None, 0, 20
        while True:
            row = int((44 * height // 49) + distance * cos(angle))
            column = int(width // 2 + distance * sin(angle))
            if row <= 0 or column <= 0 or column >= width - 1:
                break
            blue, green, red = picture[row, column]
            if hit is None and blue < threshold and green < threshold and red < threshold:
                hit = count
            count, distance = count + 1, distance + 1
        values.append(count - 1 if hit is None else hit)
        counts.append(count)
    return values, counts


def pictures(height, width):
    """All bright, noise with rare dark pixels, one dark channel only, thick borders at random places, all dark."""
    random = np.random.default_rng(height)
    yield np.full((height, width, 3), 200, np.uint8)
    noise = random.integers(60, 255, (height, width, 3), np.uint8)
    noise[random.random((height, width)) < 0.01] = 20
    yield noise
    yield np.where(random.random((height, width, 3)) < 0.1, 54, 200).astype(np.uint8)
    road = np.full((height, width, 3), 120, np.uint8)
    for row in range(height):
        half = int(width * 0.1 + row * 0.3 + 5 * np.sin(row / 7))
        road[row, max(0, width // 2 - half - 3) : max(0, width // 2 - half)] = 10
        road[row, min(width, width // 2 + half) : min(width, width // 2 + half + 3)] = 54
    yield road
    yield np.zeros((height, width, 3), np.uint8)


@pytest.mark.parametrize(("size", "threshold"), [*[(size, 55) for size in SIZES], ((128, 256), 88)])
def test_trackmania_lidar_equals_the_reference(size, threshold):
    lidar = PixelLidar(*size, threshold)
    for picture in pictures(*size):
        values, counts = reference(picture, threshold)
        assert lidar.samples.tolist() == counts
        found = lidar.read(picture)
        assert found.dtype == np.float32
        assert found.tolist() == values


def test_trackmania_lidar_has_the_published_numbers_of_samples():
    large = [458, 466, 489, 532, 604, 551, 485, 446, 424, 418, 424, 446, 485, 551, 604, 532, 489, 466, 459]
    small = [107, 109, 116, 127, 146, 128, 111, 101, 95, 94, 95, 101, 111, 128, 146, 127, 116, 109, 108]
    assert PixelLidar(488, 958).samples.tolist() == large
    assert PixelLidar(128, 256).samples.tolist() == small


def test_trackmania_lidar_beams_go_from_right_to_left():
    picture = np.full((128, 256, 3), 200, np.uint8)
    picture[:, 200:203] = 0
    found = PixelLidar(128, 256).read(picture)
    assert found[0] == 200 - 128 - 20
    assert found[18] == 107
    assert found[9] == 93
