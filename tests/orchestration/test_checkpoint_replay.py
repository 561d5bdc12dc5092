"""A checkpoint of a large replay buffer costs what is new, in bytes."""

import numpy as np
import pytest

from paddock.buffers.prioritized import PrioritizedBuffer, PrioritizedConfig
from paddock.buffers.uniform import UniformBuffer, UniformConfig
from paddock.core.specs import ArraySpec, Spec
from paddock.orchestration.checkpoint import CheckpointConfig, CheckpointStore

COPIES = 16
SPEC = Spec(
    observation={"observation": ArraySpec(shape=(17,), dtype="float32")},
    action=ArraySpec(shape=(6,), dtype="float32", low=-1.0, high=1.0),
)


def collect(buffer, steps):
    random, flags = np.random.default_rng(steps), np.zeros(COPIES, bool)
    for _ in range(steps // COPIES):
        observation = {"observation": random.random((COPIES, 17), np.float32)}
        buffer.add(
            {
                "observation": observation,
                "next_observation": observation,
                "action": random.random((COPIES, 6), np.float32),
                "reward": random.random(COPIES, np.float32),
                "terminated": flags,
                "truncated": flags,
                "valid": ~flags,
            }
        )


@pytest.mark.parametrize(
    ("kind", "schema"),
    [(UniformBuffer, UniformConfig), (PrioritizedBuffer, PrioritizedConfig)],
    ids=["uniform", "prioritized"],
)
def test_ten_thousand_new_of_a_million_cost_a_tenth_at_most(tmp_path, kind, schema):
    """A tenth of everything, so that the test is quick: a thousand new of a hundred thousand."""
    buffer = kind(schema(_target_="it", capacity=100_000, batch_size=32, segment_steps=1_638), SPEC, COPIES)
    collect(buffer, 120_000)
    store = CheckpointStore(tmp_path, CheckpointConfig(keep_last=3))
    for number in range(3):
        store.save({}, {"replay": buffer}, agent_steps=number, info={}, score=None)
        collect(buffer, 1_000)
    written = []
    for path in store.all():
        files = [file for file in path.rglob("*") if file.is_file()]
        new = [file for file in files if not _was_there(file, path, store.all())]
        written.append(sum(file.stat().st_size for file in new))
    assert written[0] > 100_000 * 4 * 17
    assert max(written[1:]) < 0.1 * written[0], written


def _was_there(file, path, paths):
    """Whether an earlier checkpoint holds the very same file."""
    earlier = [other / file.relative_to(path) for other in paths if other < path]
    return any(other.exists() and other.samefile(file) for other in earlier)
