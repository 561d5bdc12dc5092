"""The parts of TD-MPC against naive versions: SimNorm, Mish, two-hot values, normed layers, stacked critics, images."""

import math

import pytest
import torch
from torch import nn
from torch.nn import functional

from paddock.components.controllers.latent_critics import LatentCritics
from paddock.components.controllers.policy_prior import NoisyAction
from paddock.components.networks.latent_mlp import LatentMLPConfig, SimNorm, latent_mlp, mish, sim_norm
from paddock.components.networks.number_coding import NumberCoding, NumberCodingConfig
from paddock.components.representation_learners.latent_encoder import shifted
from paddock.config.schema import instantiate, validate_target
from paddock.core.errors import InputError
from paddock.core.specs import ArraySpec, Spec

ACTION = ArraySpec(shape=(2,), dtype="float32", low=-1.0, high=1.0)
VECTOR = ArraySpec(shape=(5,), dtype="float32", low=-1.0, high=1.0)
SPEC = Spec(observation={"observation": VECTOR}, action=ACTION)
LAYERS = {"hidden": [32, 32]}


def told(spec=SPEC, **changes):
    values = {
        "_target_": "paddock.components.dynamics.told.TOLD",
        "latent": 16,
        "encoder": {"hidden": [24]},
        **dict.fromkeys(("dynamics", "reward", "continue"), LAYERS),
    }
    return instantiate(validate_target({**values, **changes}), spec)


def critics(**changes):
    target = "paddock.components.controllers.latent_critics.LatentCritics"
    return instantiate(validate_target({"_target_": target, "inputs": 16, **LAYERS, **changes}), SPEC)


def test_sim_norm_is_a_softmax_within_groups():
    values = torch.randn(3, 4, 24)
    found = sim_norm(values, 8)
    for group in range(3):
        members = values[..., group::3]  # Numbers L / 8 apart make a group.
        assert torch.allclose(found[..., group::3], members.exp() / members.exp().sum(-1, keepdim=True), atol=1e-6)
    assert torch.allclose(found.sum(-1), torch.tensor(3.0))
    assert torch.equal(SimNorm(8)(values), found)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_mish_is_torchs_with_its_gradient(dtype):
    values = torch.cat([torch.linspace(-60, 60, 999), torch.randn(50)]).to(dtype).requires_grad_()
    ours, theirs = mish(values), functional.mish(values)
    assert torch.allclose(ours, theirs, atol=3e-6)
    gradients = [torch.autograd.grad(each.sum(), values)[0] for each in (ours, theirs)]
    assert torch.allclose(*gradients, atol=1e-5)
    with torch.no_grad():
        assert torch.allclose(mish(values), theirs, atol=3e-6)


def test_two_hot_takes_the_expectation_before_symexp():
    coding = NumberCoding(NumberCodingConfig())
    assert coding.outputs == 101
    assert torch.allclose(coding.bins, torch.linspace(-10, 10, 101), atol=1e-5)
    logits, target = torch.randn(7, 101), torch.tensor([0.0, 0.3, -4.0, 1e9, -1e9, 17.0, 250.0])
    expected = (logits.softmax(-1) * torch.linspace(-10, 10, 101)).sum(-1)
    assert torch.allclose(coding.predict(logits), expected.sign() * expected.abs().expm1(), rtol=1e-3, atol=1e-5)
    for row, value in zip(logits, target.tolist(), strict=True):
        symlog = max(-10.0, min(10.0, math.copysign(math.log1p(abs(value)), value)))
        place = (symlog + 10) / 0.2
        below = min(int(place + 1e-4), 99)
        log_probability = row.log_softmax(-1)
        naive = -(1 - (place - below)) * log_probability[below] - (place - below) * log_probability[below + 1]
        assert float(coding.loss(row, torch.tensor(value))) == pytest.approx(float(naive), abs=2e-3)
    exact = torch.full((101,), -1e9)
    exact[60] = 0.0  # symlog 2
    assert float(coding.predict(exact)) == pytest.approx(math.expm1(2.0), rel=1e-5)


def test_a_plain_number_is_learned_by_squared_errors():
    coding = NumberCoding(NumberCodingConfig(bins=None))
    outputs = torch.tensor([[3.0], [-1.0]])
    assert coding.predict(outputs).tolist() == [3.0, -1.0]
    assert coding.loss(outputs, torch.tensor([1.0, 1.0])).tolist() == [4.0, 4.0]
    with pytest.raises(ValueError, match="bins = 100 has no bin at zero"):
        NumberCodingConfig(bins=100)


@pytest.mark.parametrize("members", [2, 5])
def test_latent_critics_begin_with_std_002_and_exactly_zero_values(members):
    torch.manual_seed(0)
    made: LatentCritics = critics(ensemble_size=members, hidden=[256, 256])
    for layer in made.members.hidden:
        for weight in layer.weight.detach():
            assert float(weight.std()) == pytest.approx(0.02, rel=0.05)
        assert not layer.bias.any()
    assert not made.members.head.weight.any()
    outputs = made(torch.rand(9, 16), torch.rand(9, 2), drops=True)
    assert outputs.shape == (members, 9, 101)
    assert torch.equal(made.coding.predict(outputs), torch.zeros(members, 9))


def test_told_begins_with_std_002_and_exactly_zero_rewards():
    model = told(dynamics={"hidden": [256, 256]}, reward={"hidden": [256, 256]})
    for part in (model.encoder, model.dynamics, model.reward):
        for layer in [each for each in part.modules() if isinstance(each, nn.Linear)][:-1]:
            assert float(layer.weight.detach().std()) == pytest.approx(0.02, rel=0.15)
            assert not layer.bias.any()
    seen = model.observe(model.initial(6), torch.zeros(6, 2), {"observation": torch.randn(6, 5)}, torch.zeros(6) > 0)
    assert torch.allclose(seen["state"].unflatten(-1, (8, 2)).sum(1), torch.ones(6, 2))
    assert torch.equal(model.predict_reward(model.imagine_step(seen, torch.rand(6, 2))), torch.zeros(6))


def test_orthogonal_layers_of_the_first_version():
    model = told(simnorm=None, encoder={"hidden": [24], "norm": "none", "weight_std": None, "activation": "elu"})
    weight = next(each for each in model.encoder.modules() if isinstance(each, nn.Linear)).weight.detach()
    assert torch.allclose(weight.T @ weight, torch.eye(5), atol=1e-5)
    made = critics(norm="first", first_activation="tanh", activation="elu", weight_std=None, coding={"bins": None})
    assert list(made.members.norms) == ["0"]
    weight = made.members.hidden[0].weight.detach()[1]
    assert torch.allclose(weight.T @ weight if weight.shape[0] > 32 else weight @ weight.T, torch.eye(18), atol=1e-5)


def test_stacked_members_are_the_networks_one_by_one():
    torch.manual_seed(0)
    made = critics(ensemble_size=3)
    nn.init.normal_(made.members.head.weight)
    features, action = torch.randn(7, 16), torch.randn(7, 2)
    outputs = made(features, action)
    for member in range(3):
        values = torch.cat([features, action], -1)
        for index, layer in enumerate(made.members.hidden):
            norm = made.members.norms[str(index)]
            values = values @ layer.weight[member] + layer.bias[member]
            values = functional.layer_norm(values, values.shape[-1:]) * norm.scale[member] + norm.offset[member]
            values = functional.mish(values)
        naive = values @ made.members.head.weight[member] + made.members.head.bias[member]
        assert torch.allclose(outputs[member], naive, atol=1e-5)
    pair = torch.tensor([2, 0])
    assert torch.allclose(made(features, action, pair), outputs[pair], atol=1e-6)
    values = made.coding.predict(outputs[pair])
    assert torch.allclose(made.value(features, action, pair, reduce="min"), values.amin(0), atol=1e-4)
    assert torch.allclose(made.value(features, action, pair, reduce="mean"), values.mean(0), atol=1e-4)


def test_dropout_is_in_the_first_layer_and_only_while_learning():
    made = critics(dropout=0.5)
    nn.init.normal_(made.members.head.weight)
    features, action = torch.randn(5, 16), torch.randn(5, 2)
    assert torch.equal(made(features, action), made(features, action))
    assert not torch.equal(made(features, action, drops=True), made(features, action, drops=True))


@pytest.mark.parametrize("ends", ["soft", "threshold", "ignore"])
def test_predicted_ends_weigh_by_chance_cut_off_or_play_no_part(ends):
    model = told(ends=ends)
    latent = {"state": torch.rand(50, 16), "reward": torch.zeros(50)}
    found = model.predict_continue(latent)
    if ends == "ignore":
        assert torch.equal(found, torch.ones(50))
        assert model.goes_on is None
        assert not model.continue_loss(latent["state"], torch.ones(50) > 0).any()
        return
    nn.init.normal_(model.goes_on[-1].weight)
    logit = model.goes_on(latent["state"]).squeeze(-1)
    expected = logit.sigmoid() if ends == "soft" else (logit.sigmoid() > 0.5).float()
    assert torch.equal(model.predict_continue(latent), expected)
    naive = -torch.where(torch.arange(50) % 2 == 0, (1 - logit.sigmoid()).log(), logit.sigmoid().log())
    assert torch.allclose(model.continue_loss(latent["state"], torch.arange(50) % 2 == 0), naive, atol=1e-5)


@pytest.mark.parametrize("channels_first", [True, False])
def test_shifted_images_are_crops_of_padded_ones(channels_first):
    torch.manual_seed(1)
    pictures = torch.randint(256, (20, 3, 9, 9), dtype=torch.uint8)
    given = pictures if channels_first else pictures.movedim(1, -1)
    found = shifted(given, 2, channels_first=channels_first)
    assert found.shape == given.shape
    found = found if channels_first else found.movedim(-1, 1)
    padded = functional.pad(pictures.float(), (2, 2, 2, 2), mode="replicate").to(torch.uint8)
    places = set()
    for picture, whole in zip(found, padded, strict=True):
        crops = {(y, x): whole[:, y : y + 9, x : x + 9] for y in range(5) for x in range(5)}
        places |= {place for place, crop in crops.items() if torch.equal(crop, picture)}
    assert len(places) > 8


def test_images_and_numbers_become_one_latent_and_shift_only_while_learning():
    torch.manual_seed(0)
    picture = ArraySpec(shape=(64, 64, 3), dtype="uint8", low=0, high=255)
    spec = Spec(observation={"pixels": picture, "state": VECTOR}, action=ACTION)
    model = told(spec)
    seen = {"pixels": torch.randint(256, (4, 64, 64, 3), dtype=torch.uint8), "state": torch.randn(4, 5)}
    latent = model.encoder(seen)
    assert latent.shape == (4, 16)
    assert torch.equal(latent, model.encoder(seen))
    nn.init.normal_(model.encoder.projections["pixels"].weight)
    assert not torch.equal(model.encoder(seen, augments=True), model.encoder(seen, augments=True))
    for name in seen:
        changed = {**seen, name: seen[name].flip(0)}
        assert not torch.allclose(model.encoder(seen), model.encoder(changed))
    small = ArraySpec(shape=(16, 16, 3), dtype="uint8", low=0, high=255)
    with pytest.raises(InputError, match=r"picture 'pixels' has 16 x 16 pixels, too small"):
        told(Spec(observation={"pixels": small}, action=ACTION))


def test_a_noisy_action_is_cut_and_keeps_its_gradient():
    mean = torch.tensor([[0.95, -0.2]], requires_grad=True)
    action, log_prob = NoisyAction(mean, 0.5, 0.3).sample_with_log_prob(torch.tensor([[9.0, 0.1]]))
    assert torch.allclose(action, torch.tensor([[1.0, -0.15]]))
    assert torch.equal(torch.autograd.grad(action.sum(), mean)[0], torch.ones(1, 2))
    assert not log_prob.any()


def test_a_latent_that_cannot_be_grouped_is_refused():
    with pytest.raises(ValueError, match="latent = 12 cannot be split into groups of simnorm = 8"):
        told(latent=12)


def test_latent_mlp_is_linear_norm_activation():
    torch.manual_seed(0)
    net = latent_mlp(3, LatentMLPConfig(hidden=[8, 8]), 2)
    kinds = [type(layer).__name__ for layer in net]
    assert kinds == ["Linear", "LayerNorm", "Mish", "Linear", "LayerNorm", "Mish", "Linear"]


def test_told_imagines_first_steps_as_any_others():
    torch.manual_seed(0)
    model = told()
    nn.init.normal_(model.reward[-1].weight)
    latent = model.observe(model.initial(3), torch.zeros(3, 2), {"observation": torch.randn(3, 5)}, torch.zeros(3) > 0)
    actions = torch.rand(3, 7, 2)
    found = model.imagine_first(latent, actions)
    copies = {name: part.repeat_interleave(7, 0) for name, part in latent.items()}
    naive = model.imagine_step(copies, actions.flatten(0, 1))
    for name, part in naive.items():
        assert torch.allclose(found[name], part, atol=1e-5), name
