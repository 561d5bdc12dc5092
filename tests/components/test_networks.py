"""Every network of the shipped group: built by name, able to learn, saved and loaded with its policy."""

import pytest
import torch
from torch import nn

from paddock.components.networks.building import build_network, is_recurrent
from paddock.components.networks.cnn import CNN
from paddock.components.networks.mlp import encode
from paddock.components.networks.recurrent import Recurrent
from paddock.components.networks.vit import Block, ViT, ViTConfig
from paddock.config.compose import choices, compose
from paddock.config.schema import instantiate, validate_target
from paddock.core.errors import InputError
from paddock.core.specs import ArraySpec, Spec
from paddock.rollout.actor import load_policy

NETWORKS = sorted(choices("network"))
ACTION = ArraySpec(shape=(2,), dtype="float32", low=-1.0, high=1.0)
NORMALIZER = {"_target_": "paddock.components.normalizers.ObservationNormalizer", "enabled": True}


def spec_for(name):
    """What suits a network: numbers alone for those that read a vector, else pictures and numbers."""
    parts = {"speed": ArraySpec(shape=(3,), dtype="float32")}
    if name not in ("mlp", "lstm"):
        side = 84 if name == "nature_cnn" else 64
        parts["picture"] = ArraySpec(shape=(4, side, side), dtype="uint8")
    return Spec(observation=parts, action=ACTION, is_dict=True)


def observed(spec, *lead):
    torch.manual_seed(1)
    return {
        name: torch.randint(256, (*lead, *part.shape), dtype=torch.uint8)
        if part.dtype == "uint8"
        else torch.randn(*lead, *part.shape)
        for name, part in spec.observation.items()
    }


def config_of(name):
    values = compose("ppo_cartpole", overrides=[f"+network@components.policy.network={name}"]).values
    return values["components"]["policy"]["network"]


@pytest.fixture(params=NETWORKS)
def named(request):
    return request.param


def test_each_reads_all_parts_and_every_weight_learns(named):
    spec = spec_for(named)
    network = build_network(validate_target(config_of(named)), spec, may_be_recurrent=True)
    observation = observed(spec, 5)

    def features():
        if is_recurrent(network):
            return network(observation, {k: v + 0.1 for k, v in network.initial_state(5).items()})[0]
        return encode(network, observation)

    before = features()
    assert before.shape == (5, network.outputs)
    for name, part in list(observation.items()):
        observation[name] = part + 1
        assert not torch.equal(features(), before), f"'{name}' is not read"
        observation[name] = part
    (before * torch.randn_like(before)).sum().backward()
    still = [name for name, p in network.named_parameters() if p.grad is None or not p.grad.abs().sum() > 0]
    assert not still


def test_policy_and_value_read_the_parts_they_are_given():
    spec = spec_for("small_cnn")
    where = "paddock.components.controllers.policy"
    policy = {"_target_": f"{where}.StochasticPolicy", "parts": ["picture"], "network": config_of("small_cnn")}
    value = {"_target_": f"{where}.ValueFunction", "parts": ["speed"], "network": config_of("mlp")}
    parts = {name: instantiate(validate_target(one), spec) for name, one in (("policy", policy), ("value", value))}
    seen = observed(spec, 5)
    for changed, moves in (("picture", {"policy": True, "value": False}), ("speed", {"policy": False, "value": True})):
        other = {**seen, changed: seen[changed] + 1}
        outputs = {"policy": lambda observation: parts["policy"](observation).mean, "value": parts["value"]}
        for name, output in outputs.items():
            assert torch.equal(output(seen), output(other)) != moves[name], f"{name} and {changed}"
    with pytest.raises(InputError, match=r"no part sped. Its parts are: speed, picture"):
        instantiate(validate_target({**value, "parts": ["sped"]}), spec)


def test_the_order_of_an_observations_parts_means_nothing(named):
    more = {**spec_for(named).observation, "place": ArraySpec(shape=(2,), dtype="float32")}
    spec = Spec(observation=more, action=ACTION, is_dict=True)
    network, seen = build_network(validate_target(config_of(named)), spec, may_be_recurrent=True), observed(spec, 3)
    turned = dict(reversed(seen.items()))
    state = (network.initial_state(3),) if is_recurrent(network) else ()
    one, other = (network(parts, *state) if state else encode(network, parts) for parts in (seen, turned))
    assert torch.equal(*(answer[0] if state else answer for answer in (one, other)))


def test_auxiliary_targets_of_a_policy_are_predicted_from_what_it_reads():
    spec, where = spec_for("small_cnn"), "paddock.components.controllers.policy"
    config = {"_target_": f"{where}.StochasticPolicy", "parts": ["picture"], "auxiliary_targets": ["speed"]}
    policy = instantiate(validate_target({**config, "network": config_of("small_cnn")}), spec)
    seen = observed(spec, 5)
    distribution, error = policy.forward_with_aux(seen)
    assert torch.equal(distribution.mean, policy(seen).mean)
    guess = policy.guess_head(policy.network({"picture": seen["picture"]}))
    assert torch.allclose(error, ((guess - seen["speed"]) ** 2).mean(1), atol=1e-6)
    error.mean().backward()
    assert all(p.grad.abs().sum() > 0 for p in policy.network.parameters())
    assert policy.head.weight.grad is None
    with pytest.raises(InputError, match="recurrent policy cannot have auxiliary_targets"):
        instantiate(validate_target({**config, "network": config_of("cnn_gru")}), spec)


def test_each_is_saved_and_loaded_with_its_policy(named, tmp_path):
    spec = spec_for(named)
    policy = {
        "_target_": "paddock.components.controllers.policy.StochasticPolicy",
        "network": config_of(named),
        "head_gain": 1.0,
    }
    parts = {"policy": instantiate(validate_target(policy), spec)}
    parts["normalizer"] = instantiate(validate_target(NORMALIZER), spec)
    parts["normalizer"].update(observed(spec, 50))
    actor = instantiate(
        validate_target(
            {"_target_": "paddock.rollout.actor.PolicyActor", "policy": "policy", "normalizer": "normalizer"}
        ),
        parts,
        spec,
    )
    actor.save(tmp_path)
    loaded = load_policy(tmp_path)
    state, other = actor.initial_state(3), loaded.initial_state(3)
    for step in range(3):
        observation = {name: part + step for name, part in observed(spec, 3).items()}
        with torch.inference_mode():
            action, state = actor.act(observation, state, deterministic=True)
            again, other = loaded.act(observation, other, deterministic=True)
        assert torch.equal(action, again)
        assert action.abs().sum() > 0


@pytest.mark.parametrize("cell", ["lstm", "gru"])
def test_unrolling_is_stepping_with_resets(cell):
    spec = spec_for("lstm")
    config = validate_target({**config_of("lstm"), "cell": cell, "size": 8})
    network = Recurrent(config, spec)
    observation = observed(spec, 4, 9)
    is_first = torch.rand(4, 9) < 0.3
    start = {name: torch.randn_like(part) for name, part in network.initial_state(4).items()}
    features, end = network.unroll(observation, start, is_first)
    state, fresh = start, network.initial_state(4)
    for t in range(9):
        keep = ~is_first[:, t, None]
        state = {name: torch.where(keep, state[name], fresh[name]) for name in state}
        expected, state = network({name: part[:, t] for name, part in observation.items()}, state)
        assert torch.allclose(features[:, t], expected, atol=1e-6)
    assert all(torch.allclose(end[name], state[name], atol=1e-6) for name in end)


def test_the_racing_network_ends_in_one_pixel():
    spec = Spec(observation={"picture": ArraySpec(shape=(64, 64, 3), dtype="uint8")}, action=ACTION)
    network = CNN(validate_target(config_of("racing_cnn")), spec)
    layers = [layer for layer in network.convolutions["picture"] if isinstance(layer, nn.Conv2d)]
    assert [(layer.out_channels, layer.kernel_size[0], layer.stride[0]) for layer in layers] == [
        (64, 8, 2),
        (64, 4, 2),
        (128, 4, 2),
        (128, 4, 2),
    ]
    assert network.convolutions["picture"](torch.zeros(1, 3, 64, 64)).shape == (1, 128)
    weight = layers[1].weight.detach().flatten(1)
    assert torch.allclose(weight @ weight.T, 2 * torch.eye(64), atol=1e-4), "orthogonal, with the gain of relu"


def test_attention_is_what_torch_computes():
    torch.manual_seed(0)
    block = Block(ViTConfig(_target_="it", width=16, heads=4))
    reference = nn.MultiheadAttention(16, 4, batch_first=True)
    reference.in_proj_weight.data, reference.in_proj_bias.data = (
        block.attention_inputs.weight.data,
        block.attention_inputs.bias.data,
    )
    reference.out_proj.load_state_dict(block.attention_output.state_dict())
    tokens = torch.randn(2, 9, 16)
    normed = block.attention_norm(tokens)
    expected = tokens + reference(normed, normed, normed)[0]
    expected = expected + block.perceptron(block.perceptron_norm(expected))
    assert torch.allclose(block(tokens), expected, atol=1e-5)


def test_what_does_not_fit_is_explained():
    small = Spec(observation={"picture": ArraySpec(shape=(20, 20, 3), dtype="uint8")}, action=ACTION)
    with pytest.raises(InputError, match="too small for this CNN"):
        CNN(validate_target(config_of("racing_cnn")), small)
    with pytest.raises(InputError, match="sizes that fit: 2, 4, 5, 10"):
        ViT(validate_target(config_of("vit")), small)
    with pytest.raises(InputError, match="use an MLP"):
        ViT(validate_target(config_of("vit")), spec_for("mlp"))
    with pytest.raises(InputError, match="Use a CNN or an MLP"):
        build_network(validate_target(config_of("multi_input")), small)
    with pytest.raises(InputError, match="go with PPO"):
        build_network(validate_target(config_of("lstm")), spec_for("lstm"))
    with pytest.raises(InputError, match="Did you mean 'vit'"):
        config_of("vitt")
