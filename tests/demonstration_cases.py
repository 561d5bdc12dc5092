"""Demonstrations made up for tests."""

import numpy as np

from paddock.buffers.episodes import CORRECTED, INTERVENTION, Description, Episode, EpisodeWriter
from paddock.core.specs import ArraySpec, Spec

SPEC = Spec(
    observation={
        "image": ArraySpec(shape=(4, 4, 3), dtype="uint8", low=0, high=255),
        "speed": ArraySpec(shape=(2,), dtype="float32"),
    },
    action=ArraySpec(shape=(2,), dtype="float32", low=[-1.0, 0.0], high=[1.0, 3.0]),
    is_dict=True,
)


def make_episode(steps, seed=0, *, terminates=False, marked=False):
    random = np.random.default_rng(seed)
    flags = np.zeros((2, steps), bool)
    flags[0 if terminates else 1, -1] = True
    actions = random.uniform([-1, 0], [1, 3], (steps, 2)).astype(np.float32)
    marks = {INTERVENTION: random.random(steps) < 0.5, CORRECTED: random.random(steps) < 0.5} if marked else {}
    return Episode(
        observations={
            "image": random.integers(0, 256, (steps + 1, 4, 4, 3), np.uint8),
            "speed": random.normal(size=(steps + 1, 2)).astype(np.float32),
        },
        actions=actions,
        rewards=random.normal(size=steps),
        terminations=flags[0],
        truncations=flags[1],
        labels=actions[::-1].copy() if marked else None,
        marks=marks,
        information={"driver": "classical", "seed": seed, "noise": 0.1},
    )


def write_set(folder, *episodes, spec=SPEC):
    writer = EpisodeWriter(folder, Description(spec, {"_target_": "paddock.environments.gym.make"}, 0.05))
    for episode in episodes:
        writer.add(episode)
    return folder


def assert_same_episode(one, other):
    assert one.observations.keys() == other.observations.keys()
    pairs = [(one.observations[name], other.observations[name]) for name in one.observations]
    pairs += [(getattr(one, name), getattr(other, name)) for name in ("actions", "rewards")]
    pairs += [(getattr(one, name), getattr(other, name)) for name in ("terminations", "truncations")]
    assert one.marks.keys() == other.marks.keys()
    pairs += [(one.marks[name], other.marks[name]) for name in one.marks]
    assert (one.labels is None) == (other.labels is None)
    if one.labels is not None:
        pairs.append((one.labels, other.labels))
    for here, there in pairs:
        assert here.dtype == there.dtype
        assert here.tobytes() == there.tobytes()
        assert here.shape == there.shape
    assert dict(one.information) == dict(other.information)
