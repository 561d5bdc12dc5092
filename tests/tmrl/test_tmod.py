"""`.tmod` files: TMRL's two published actors act as an independent forward pass says, and round trips are equal."""

from __future__ import annotations

import os
import pickle
from collections import OrderedDict

import numpy as np
import pytest
import torch
from torch.nn import functional

from paddock.components.controllers.squashed_policy import SquashedPolicy, SquashedPolicyConfig
from paddock.core.errors import InputError
from paddock.core.reading import DamagedError
from paddock.environments.trackmania.trajectory import Trajectory
from paddock.rollout.actor import load_policy
from paddock.tmrl.layouts import LIDAR, Layout
from paddock.tmrl.policies import exported_weights, make_actor, read_policy, write_policy
from paddock.tmrl.rewards import read_reward, write_reward

LIDAR_SHAPES = {
    "net.0.weight": (256, 83), "net.0.bias": (256,), "net.2.weight": (256, 256), "net.2.bias": (256,),
    "mu_layer.weight": (3, 256), "mu_layer.bias": (3,), "log_std_layer.weight": (3, 256), "log_std_layer.bias": (3,),
}  # fmt: skip
IMAGE_SHAPES = {
    "net.conv1.weight": (64, 4, 8, 8), "net.conv1.bias": (64,), "net.conv2.weight": (64, 64, 4, 4),
    "net.conv2.bias": (64,), "net.conv3.weight": (128, 64, 4, 4), "net.conv3.bias": (128,),
    "net.conv4.weight": (128, 128, 4, 4), "net.conv4.bias": (128,), "net.mlp.0.weight": (256, 137),
    "net.mlp.0.bias": (256,), "net.mlp.2.weight": (256, 256), "net.mlp.2.bias": (256,),
    **{name: shape for name, shape in LIDAR_SHAPES.items() if "layer" in name},
}  # fmt: skip


def random_weights(shapes, seed: int) -> OrderedDict:
    generator = torch.Generator().manual_seed(seed)
    made = OrderedDict()
    for name, shape in shapes.items():
        inputs = int(np.prod(shape[1:])) or 1
        made[name] = torch.randn(shape, generator=generator) * inputs**-0.5
    return made


def lidar_forward(weights, speed, lidar, actions, progress=None) -> torch.Tensor:
    """tanh(mean), written from the description of TMRL's actor."""
    first = [speed] if progress is None else [speed, progress]
    features = torch.cat([*first, lidar.flatten(1), *actions], -1)
    for layer in ("net.0", "net.2"):
        features = functional.linear(features, weights[f"{layer}.weight"], weights[f"{layer}.bias"]).clamp(min=0)
    return functional.linear(features, weights["mu_layer.weight"], weights["mu_layer.bias"]).tanh()


def image_forward(weights, speed, gear, rpm, images, actions) -> torch.Tensor:
    """As above, over what TMRL's preprocessor makes of an observation."""
    features = images.float() / 256
    for layer in ("conv1", "conv2", "conv3", "conv4"):
        layer = f"net.{layer}"
        features = functional.conv2d(features, weights[f"{layer}.weight"], weights[f"{layer}.bias"], 2).clamp(min=0)
    joined = torch.cat([speed / 1000, gear / 10, rpm / 10000, features.flatten(1), *actions], -1)
    hidden = functional.linear(joined, weights["net.mlp.0.weight"], weights["net.mlp.0.bias"]).clamp(min=0)
    hidden = functional.linear(hidden, weights["net.mlp.2.weight"], weights["net.mlp.2.bias"])
    return functional.linear(hidden, weights["mu_layer.weight"], weights["mu_layer.bias"]).tanh()


def test_tmod_lidar_actor_acts_as_published(tmp_path):
    torch.save(weights := random_weights(LIDAR_SHAPES, 1), tmp_path / "run.tmod")
    actor, layout = read_policy(tmp_path / "run.tmod")
    assert (layout.interface, layout.history, layout.last_actions) == ("lidar", 4, 2)
    actor.save(tmp_path / "policy")
    loaded = load_policy(tmp_path / "policy")
    generator = np.random.default_rng(1)
    for _ in range(20):
        speed = generator.uniform(0, 80, (1, 1)).astype(np.float32)
        lidar = generator.integers(0, 600, (1, 4, 19)).astype(np.float32)
        older, newer = generator.uniform(-1, 1, (2, 1, 3)).astype(np.float32)
        actions = [torch.from_numpy(older), torch.from_numpy(newer)]
        expected = lidar_forward(weights, torch.from_numpy(speed), torch.from_numpy(lidar), actions)
        seen = {"speed": speed, LIDAR: lidar, "last_actions": np.concatenate([older, newer], -1)}
        action, _ = loaded.predict(seen)
        np.testing.assert_allclose(action, expected.numpy(), atol=1e-6)


def test_tmod_image_actor_acts_as_published(tmp_path):
    torch.save(weights := random_weights(IMAGE_SHAPES, 2), tmp_path / "run.tmod")
    actor, layout = read_policy(tmp_path / "run.tmod")
    assert (layout.interface, layout.history, layout.image) == ("full", 4, (64, 64))
    actor.save(tmp_path / "policy")
    loaded = load_policy(tmp_path / "policy")
    generator = np.random.default_rng(2)
    for _ in range(5):
        speed, gear, rpm = (generator.uniform(0, top, (1, 1)).astype(np.float32) for top in (90, 5, 11_000))
        images = generator.integers(0, 256, (1, 4, 64, 64)).astype(np.uint8)
        older, newer = generator.uniform(-1, 1, (2, 1, 3)).astype(np.float32)
        tensors = map(torch.from_numpy, (speed, gear, rpm, images))
        expected = image_forward(weights, *tensors, [torch.from_numpy(older), torch.from_numpy(newer)])
        seen = {"speed": speed, "gear": gear, "rpm": rpm, "images": images}
        action, _ = loaded.predict({**seen, "last_actions": np.concatenate([older, newer], -1)})
        np.testing.assert_allclose(action, expected.numpy(), atol=1e-6)


def test_tmod_with_progress_reads_it_behind_the_speed(tmp_path):
    torch.save(weights := random_weights({**LIDAR_SHAPES, "net.0.weight": (256, 84)}, 3), tmp_path / "run.tmod")
    actor, layout = read_policy(tmp_path / "run.tmod")
    assert layout.interface == "lidar_progress"
    speed, progress, lidar = torch.tensor([[30.0]]), torch.tensor([[0.5]]), torch.full((1, 4, 19), 100.0)
    seen = {"speed": speed, "progress": progress, LIDAR: lidar, "last_actions": torch.zeros(1, 6)}
    expected = lidar_forward(weights, speed, lidar, [torch.zeros(1, 6)], progress)
    action, _ = actor.act(seen, None, deterministic=True)
    torch.testing.assert_close(action, expected, atol=1e-6, rtol=0)


@pytest.mark.parametrize("shapes", [LIDAR_SHAPES, IMAGE_SHAPES], ids=["lidar", "images"])
def test_tmod_round_trip_is_equal_and_loads_with_weights_only(tmp_path, shapes):
    torch.save(weights := random_weights(shapes, 4), tmp_path / "run.tmod")
    actor, _ = read_policy(tmp_path / "run.tmod")
    actor.save(tmp_path / "policy")
    write_policy(load_policy(tmp_path / "policy"), tmp_path / "again.tmod")
    found = torch.load(tmp_path / "again.tmod", weights_only=True)
    assert {name: tuple(value.shape) for name, value in found.items()} == shapes
    assert all(torch.equal(found[name], weights[name]) for name in weights)


def sac_policy(spec, **network) -> SquashedPolicy:
    mlp = {"_target_": "paddock.components.networks.mlp.MLP", "hidden": [256, 256], "activation": "relu", **network}
    target = "paddock.components.controllers.squashed_policy.SquashedPolicy"
    return SquashedPolicy(SquashedPolicyConfig(_target_=target, network=mlp), spec)


def test_tmod_of_a_policy_that_sac_learned_here_acts_alike():
    spec = Layout("lidar").spec()
    torch.manual_seed(5)
    actor = make_actor(sac_policy(spec), spec)
    weights = exported_weights(actor)
    assert {name: tuple(value.shape) for name, value in weights.items()} == LIDAR_SHAPES
    speed, lidar, actions = torch.rand(8, 1), torch.rand(8, 4, 19), torch.rand(8, 6) * 2 - 1
    action, _ = actor.act({"speed": speed, LIDAR: lidar, "last_actions": actions}, None, deterministic=True)
    torch.testing.assert_close(lidar_forward(weights, speed, lidar, [actions]), action, atol=1e-5, rtol=0)


def test_tmod_export_refuses_other_shapes():
    spec = Layout("lidar").spec()
    for policy in (sac_policy(spec, activation="tanh"), sac_policy(spec, layer_norm=True)):
        with pytest.raises(InputError, match="another shape"):
            exported_weights(make_actor(policy, spec))


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"net.4.weight": (5, 5)}, "published actors"),
        ({"net.0.weight": (256, 85)}, "85 inputs"),
        ({"mu_layer.weight": (3, 255)}, "does not fit"),
        ({"mu_layer.bias": None}, "published actors"),
    ],
)
def test_tmod_of_another_actor_is_refused_in_one_sentence(tmp_path, change, sentence):
    shapes = {name: shape for name, shape in {**LIDAR_SHAPES, **change}.items() if shape is not None}
    torch.save(random_weights(shapes, 6), tmp_path / "run.tmod")
    with pytest.raises(InputError, match=sentence):
        read_policy(tmp_path / "run.tmod")


def test_tmod_with_nan_or_other_things_is_refused(tmp_path):
    broken = random_weights(LIDAR_SHAPES, 7)
    broken["net.0.bias"][3] = float("nan")
    for value, sentence in ((broken, "NaN"), ([1, 2], "dictionary"), ({"a": 1}, "more than weights")):
        torch.save(value, tmp_path / "run.tmod")
        with pytest.raises(InputError, match=sentence):
            read_policy(tmp_path / "run.tmod")


def test_reward_pkl_round_trip_is_equal_and_loads_with_numpy(tmp_path):
    points = np.cumsum(np.random.default_rng(8).normal(size=(500, 3)), 0)
    write_reward(Trajectory(points), tmp_path / "reward.pkl")
    content = (tmp_path / "reward.pkl").read_bytes()
    assert b"numpy._core" not in content  # Which older machines do not know.
    found = pickle.loads(content)
    assert found.dtype == np.float64
    np.testing.assert_array_equal(found, points)
    np.testing.assert_array_equal(read_reward(tmp_path / "reward.pkl").points, points)


def test_reward_pkl_of_tmrl_is_read(tmp_path):
    points = np.random.default_rng(9).normal(size=(40, 3))
    for protocol in range(2, 6):
        (tmp_path / "reward.pkl").write_bytes(pickle.dumps(points, protocol))
        np.testing.assert_array_equal(read_reward(tmp_path / "reward.pkl").points, points)


class Running:
    def __init__(self, command: str) -> None:
        self.command = command

    def __reduce__(self):
        return os.system, (self.command,)


def test_malicious_reward_pkl_is_refused_and_nothing_runs(tmp_path):
    mark, path = tmp_path / "ran", tmp_path / "reward.pkl"
    for value in (Running(f"touch {mark}"), [np.zeros((3, 3)), Running(f"touch {mark}")], "points", np.zeros(3)):
        path.write_bytes(pickle.dumps(value))
        with pytest.raises(DamagedError, match=r"reward\.pkl' cannot be read"):
            read_reward(path)
    assert not mark.exists()
