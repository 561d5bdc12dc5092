import numpy as np
import torch

from paddock.components.normalizers import NormalizerConfig, ObservationNormalizer, RewardNormalizer, RunningMoments
from paddock.core.specs import ArraySpec, Spec

SPEC = Spec(
    observation={
        "vector": ArraySpec(shape=(3,), dtype="float32"),
        "image": ArraySpec(shape=(4, 4), dtype="uint8"),
    },
    action=ArraySpec(shape=(), dtype="int64", choices=2),
)


def config(**values):
    return NormalizerConfig(_target_="it", **values)


def test_merged_moments_equal_those_of_all_data():
    random = np.random.default_rng(0)
    batches = [random.normal(5, 2, (size, 3)) for size in (1, 7, 100, 3)]
    moments = RunningMoments((3,))
    for batch in batches:
        moments.update(torch.from_numpy(batch))
    everything = np.concatenate(batches)
    assert np.allclose(moments.mean, everything.mean(0))
    assert np.allclose(moments.variance, everything.var(0))


def test_observations_come_out_at_unit_scale_and_images_untouched():
    normalizer = ObservationNormalizer(config(), SPEC)
    vector = torch.randn(1000, 3) * torch.tensor([1.0, 10.0, 0.1]) + 7
    image = torch.randint(0, 255, (1000, 4, 4), dtype=torch.uint8)
    normalizer.update({"vector": vector, "image": image})
    seen = normalizer({"vector": vector, "image": image})
    assert torch.allclose(seen["vector"].mean(0), torch.zeros(3), atol=1e-4)
    assert torch.allclose(seen["vector"].std(0), torch.ones(3), atol=1e-2)
    assert seen["image"] is image


def test_what_does_not_vary_is_not_blown_up():
    vector = torch.full((1000, 3), 0.5)
    for least, expected in ((0.05, 2.0), (1e-4, 10.0)):
        normalizer = ObservationNormalizer(config(min_std=least), SPEC)
        normalizer.update({"vector": vector})
        seen = normalizer({"vector": vector + 0.1})["vector"]
        assert torch.allclose(seen, torch.full_like(seen, expected), atol=1e-3)


def test_switched_off_it_changes_nothing():
    normalizer = ObservationNormalizer(config(enabled=False), SPEC)
    observation = {"vector": torch.randn(5, 3) * 9}
    normalizer.update(observation)
    assert normalizer(observation) is observation


def test_rewards_are_scaled_by_the_deviation_of_the_discounted_return():
    random = np.random.default_rng(0)
    reward = random.normal(3, 2, (50, 4)).astype(np.float32)
    done = random.random((50, 4)) < 0.1
    normalizer = RewardNormalizer(config(clip=1e9), SPEC)
    for rows in (slice(20), slice(20, 50)):
        normalizer.update(torch.from_numpy(reward[rows]), torch.from_numpy(done[rows]), 0.9)
    returns, running = [], np.zeros(4)
    for t in range(50):
        running = running * 0.9 + reward[t]
        returns.append(running)
        running = running * ~done[t]
    expected = torch.from_numpy(reward) / np.std(returns)
    assert torch.allclose(normalizer(torch.from_numpy(reward)), expected.float(), rtol=1e-4)


def test_the_running_return_survives_a_state_dict():
    first, second = RewardNormalizer(config(), SPEC), RewardNormalizer(config(), SPEC)
    reward, done = torch.ones(5, 2), torch.zeros(5, 2, dtype=torch.bool)
    first.update(reward, done, 0.9)
    second.load_state_dict(first.state_dict())
    for normalizer in (first, second):
        normalizer.update(reward, done, 0.9)
    assert torch.equal(first.statistics.variance, second.statistics.variance)
