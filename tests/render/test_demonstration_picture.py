"""Pictures of demonstrations: what was seen as an image, as numbers or as a road, and what was done over time."""

import numpy as np

from paddock.render.demonstration_picture import CAR, LABEL, MARKED, ROAD, SIDE, demonstration_picture

ACTIONS = np.stack([np.linspace(-1, 1, 40), np.full(40, 0.5)], 1)


def has(picture, colour):
    return bool((picture == np.array(colour)).all(-1).any())


def test_demonstration_picture_draws_the_road_ahead():
    road = np.stack([np.linspace(5, 60, 10), np.zeros(10), np.full(10, 6.0), np.full(10, 6.0)], 1)
    picture = demonstration_picture({"observation": np.zeros(3)}, ACTIONS, 0, road=road)
    left = picture[:, :SIDE]
    assert has(left, ROAD)
    assert has(left, CAR)
    bent = demonstration_picture({"observation": np.zeros(3)}, ACTIONS, 0, road=np.add(road, [0, 10, 0, 0]))
    where = [np.nonzero((one[:, :SIDE] == np.array(ROAD)).all(-1))[1].mean() for one in (picture, bent)]
    assert where[1] < where[0]  # left of the car


def test_demonstration_picture_moves_with_the_step_and_marks_corrections_and_labels():
    seen = {"image": np.full((8, 8, 3), 200, np.uint8)}
    first, later = (demonstration_picture(seen, ACTIONS, step) for step in (0, 30))
    assert (first[:SIDE, :SIDE] == 200).all()
    cursors = [np.nonzero((one[:, SIDE:] == np.array(CAR)).all(-1))[1].mean() for one in (first, later)]
    assert cursors[0] < cursors[1]
    assert not has(first, MARKED)
    assert not has(first, LABEL)
    marked = demonstration_picture(seen, ACTIONS, 0, labels=-ACTIONS, marked=np.arange(40) > 20)
    assert has(marked, MARKED)
    assert has(marked, LABEL)
    numbers = [demonstration_picture({"speed": np.array([value])}, ACTIONS, 0) for value in (0.2, 0.9)]
    assert (numbers[0][:, :SIDE] != numbers[1][:, :SIDE]).any()
