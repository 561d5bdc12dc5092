import numpy as np
import pytest

from paddock.distributed.compressors import History, HistoryConfig, Images, ImagesConfig, first_difference

NAME = "observation.images"


def stacks(steps=40, copies=2, depth=4, newest="last", seed=0, ends=0.1):
    """Images [T + 1, n, depth, 8, 8] whose history moves on, and begins anew where an episode does."""
    random = np.random.default_rng(seed)
    stack = np.zeros((steps + 1, copies, depth, 8, 8), np.uint8)
    for copy in range(copies):
        frames: list[np.ndarray] = []
        for t in range(steps + 1):
            frame = random.integers(256, size=(8, 8), dtype=np.uint8)
            frames = [frame] * depth if t == 0 or random.random() < ends else [*frames[1:], frame]
            stack[t, copy] = frames if newest == "last" else frames[::-1]
    return stack


def history(newest="last"):
    return History(HistoryConfig(_target_="it", part="images", newest=newest))


def size(arrays):
    return sum(array.nbytes for array in arrays.values())


@pytest.mark.parametrize("newest", ["first", "last"])
def test_history_sends_the_newest_image_and_gives_back_every_stack(newest):
    arrays = {NAME: stacks(newest=newest), "reward": np.arange(80, dtype=np.float32).reshape(40, 2)}
    small = history(newest).compress(dict(arrays))
    back = history(newest).decompress(small)
    assert first_difference(arrays, back) is None
    assert back.keys() == arrays.keys()


def test_history_of_a_long_episode_is_a_quarter_of_the_stacks():
    arrays = {NAME: stacks(steps=256, copies=1, ends=0.0)}
    assert size(arrays) > 3.5 * size(history().compress(dict(arrays)))


def test_history_of_the_other_end_still_gives_back_every_stack():
    """Set wrongly it saves nothing, and loses nothing."""
    arrays = {NAME: stacks(newest="first")}
    assert first_difference(arrays, history("last").decompress(history("last").compress(dict(arrays)))) is None


@pytest.mark.parametrize("channels", [None, 1, 3])
def test_images_as_png_lose_nothing(channels):
    shape = (5, 2, 16, 12) if channels is None else (5, 2, 16, 12, channels)
    arrays = {NAME: np.random.default_rng(0).integers(256, size=shape, dtype=np.uint8)}
    images = Images(ImagesConfig(_target_="it", part="images"))
    assert first_difference(arrays, images.decompress(images.compress(dict(arrays)))) is None


def test_images_after_history_as_jpeg_are_near_and_small():
    frames = np.arange(0, 128, 2, dtype=np.uint8) + np.arange(68, dtype=np.uint8)[:, None, None]
    frames = np.broadcast_to(frames, (68, 64, 64))
    smooth = np.stack([frames[t : t + 4] for t in range(65)])[:, None]
    steps = [history(), Images(ImagesConfig(_target_="it", part="images", format="jpeg", quality=95))]
    small: dict = {NAME: smooth}
    for one in steps:
        small = one.compress(small)
    assert size(small) < smooth.nbytes / 8
    for one in reversed(steps):
        small = one.decompress(small)
    assert np.abs(small[NAME].astype(int) - smooth).max() < 8


@pytest.mark.parametrize(
    ("spoil", "sentence"),
    [
        (lambda a: a.pop(f"{NAME}.newest"), "there is no"),
        (lambda a: a.update({f"{NAME}.whole_index": a[f"{NAME}.whole_index"] + 999}), "steps that are not there"),
        (lambda a: a.update({f"{NAME}.whole": a[f"{NAME}.whole"][:1]}), "not in one piece"),
    ],
)
def test_history_that_was_tampered_with_is_refused(spoil, sentence):
    small = history().compress({NAME: stacks()})
    spoil(small)
    with pytest.raises(ValueError, match=sentence):
        history().decompress(small)


def test_images_that_were_tampered_with_are_refused():
    images = Images(ImagesConfig(_target_="it", part="images"))
    small = images.compress({NAME: np.zeros((3, 1, 8, 8), np.uint8)})
    for spoiled in (
        {**small, f"{NAME}.shape": np.array([3, 1, 9_000, 9_000])},
        {**small, f"{NAME}.sizes": small[f"{NAME}.sizes"] - 1},
        {**small, f"{NAME}.files": small[f"{NAME}.files"][::-1].copy()},
    ):
        with pytest.raises(ValueError, match="image"):
            images.decompress(spoiled)


def test_first_difference_names_the_place():
    sent = {"action": np.zeros((2, 3), np.float32)}
    other = {"action": np.zeros((2, 3), np.float32)}
    other["action"][1, 2] = 5
    assert first_difference(sent, sent) is None
    assert first_difference(sent, other) == "'action' differs at [1, 2]: 5.0 instead of 0.0"
    assert "missing" in first_difference(sent, {})
