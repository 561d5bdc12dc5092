"""The MDN-RNN against torch's mixtures, step by step against whole sequences, and what temperature does."""

import math

import pytest
import torch
from torch.distributions import Categorical, Independent, MixtureSameFamily, Normal
from torch.nn import functional

from paddock.components.dynamics.mdn_rnn import MDNRNN, MDNRNNConfig, Mixture, mdn_losses
from paddock.components.dynamics.mdn_world_model import MDNWorldModel, feature_size
from paddock.components.representation_learners.identity import IdentityConfig, IdentityRepresentation
from paddock.core.specs import ArraySpec, Spec

IDENTITY = "paddock.components.representation_learners.identity.IdentityRepresentation"
ACTION = ArraySpec(shape=(3,), dtype="float32", low=-1.0, high=1.0)


def memory(latent=4, **options):
    torch.manual_seed(3)
    spec = Spec(observation={"observation": ArraySpec(shape=(latent,), dtype="float32")}, action=ACTION)
    return MDNRNN(MDNRNNConfig(_target_="x", representation={"_target_": IDENTITY}, **options), spec)


def a_mixture(joint=False, lead=(7,), latent=4, components=3):
    torch.manual_seed(4)
    weight = torch.randn(*lead, 1 if joint else latent, components).log_softmax(-1)
    return Mixture(weight, torch.randn(*lead, latent, components), 0.3 * torch.randn(*lead, latent, components))


def test_mdn_rnn_has_the_published_size_but_for_the_second_bias_and_the_two_heads():
    size = sum(parameter.numel() for parameter in memory(32, size=256).parameters())
    assert size == 422_368 + 4 * 256 + 2 * 257


def test_factored_mixture_log_prob_is_that_of_torch():
    mixture = a_mixture()
    latent = torch.randn(7, 4)
    each = MixtureSameFamily(Categorical(logits=mixture.log_weight), Normal(mixture.mean, mixture.log_std.exp()))
    assert torch.allclose(mixture.log_prob(latent), each.log_prob(latent).sum(-1), atol=1e-5)
    assert torch.allclose(mixture.expected(), each.mean, atol=1e-5)


def test_joint_mixture_log_prob_is_that_of_torch():
    mixture = a_mixture(joint=True)
    latent = torch.randn(7, 4)
    means, stds = mixture.mean.transpose(-1, -2), mixture.log_std.exp().transpose(-1, -2)
    whole = MixtureSameFamily(Categorical(logits=mixture.log_weight.squeeze(-2)), Independent(Normal(means, stds), 1))
    assert mixture.is_joint
    assert torch.allclose(mixture.log_prob(latent), whole.log_prob(latent), atol=1e-5)


@pytest.mark.parametrize("temperature", [0.1, 0.5, 1.0, 1.3])
def test_temperature_divides_logits_and_multiplies_variances(temperature):
    """Samples of one number against the mean and variance of the mixture that the temperature makes."""
    logits, means, stds = torch.tensor([0.7, -0.2, 0.1]), torch.tensor([-3.0, 0.5, 4.0]), torch.tensor([0.4, 1.0, 0.7])
    weight = logits.log_softmax(-1).expand(200_000, 1, 3)
    mixture = Mixture(weight, means.expand(200_000, 1, 3), stds.log().expand(200_000, 1, 3))
    torch.manual_seed(5)
    drawn = mixture.sample(temperature)[:, 0]
    chances = (logits / temperature).softmax(-1)
    mean = (chances * means).sum()
    variance = (chances * (stds**2 * temperature + means**2)).sum() - mean**2
    assert drawn.mean().item() == pytest.approx(mean.item(), abs=0.03)
    assert drawn.var().item() == pytest.approx(variance.item(), rel=0.03)


def test_a_joint_sample_takes_all_numbers_from_one_component():
    means = torch.tensor([[-5.0, 5.0]] * 3).expand(2_000, 3, 2)
    mixture = Mixture(torch.full((2_000, 1, 2), math.log(0.5)), means, torch.full((2_000, 3, 2), -3.0))
    signs = mixture.sample().sign()
    assert (signs == signs[:, :1]).all()
    assert 0.4 < (signs[:, 0] > 0).float().mean() < 0.6


def test_unrolled_mdn_rnn_is_the_one_stepped_by_hand_and_forgets_where_an_episode_begins():
    rnn = memory(size=8)
    latent, action = torch.randn(6, 2, 4), torch.rand(6, 2, 3)
    is_first = torch.zeros(6, 2, dtype=torch.bool)
    is_first[3, 1] = True
    outputs = rnn.unroll(latent, action, is_first)
    for b in range(2):
        state = rnn.initial(1)
        for t in range(6):
            state = rnn.initial(1) if is_first[t, b] else state
            state = rnn.step(latent[t, b].unsqueeze(0), action[t, b].unsqueeze(0), state)
            assert torch.allclose(outputs[t, b], state[0][0], atol=1e-6)


@pytest.mark.parametrize("heads", [0, 5])
@pytest.mark.parametrize("mixture", ["factored", "joint"])
def test_mdn_losses_are_the_naive_ones(mixture, heads):
    rnn = memory(size=8, components=2, mixture=mixture, heads=heads)
    latent, action, reward = torch.randn(5, 3, 4), torch.rand(5, 3, 3), torch.randn(5, 3)
    is_first, terminated = torch.zeros(5, 3, dtype=torch.bool), torch.zeros(5, 3, dtype=torch.bool)
    is_first[2, 0], terminated[1, 0], terminated[4, 2] = True, True, True
    counted = torch.ones(5, 3, dtype=torch.bool)
    counted[3, 1] = False
    losses = mdn_losses(rnn, latent, action, reward, terminated, is_first, end_weight=10.0, is_counted=counted)
    found = {name: [] for name in losses}
    with torch.no_grad():
        for b in range(3):
            state = rnn.initial(1)
            for t in range(4):
                state = rnn.initial(1) if is_first[t, b] else state
                state = rnn.step(latent[t, b].unsqueeze(0), action[t, b].unsqueeze(0), state)
                if is_first[t + 1, b] or not counted[t + 1, b]:
                    continue
                after = latent[t + 1, b].unsqueeze(0)
                log_prob = rnn.mixture(state[0]).log_prob(after)
                found["latent"].append(-log_prob.item() / 4)
                found["reward"].append((rnn.reward(state[0], after) - reward[t + 1, b]).item() ** 2)
                end = terminated[t + 1, b].float()
                entropy = functional.binary_cross_entropy_with_logits(rnn.end(state[0], after)[0], end).item()
                found["end"].append(entropy * (10 if end else 1))
    for name, values in found.items():
        assert losses[name].item() == pytest.approx(sum(values) / len(values), rel=1e-4), name


@pytest.mark.parametrize("mixture", ["factored", "joint"])
def test_mdn_rnn_learns_two_futures_that_no_mean_can_tell(mixture):
    """After each step all numbers jump together to +1 or -1: a mixture knows, a single normal has entropy 1.4 each."""
    rnn = memory(2, size=16, components=2, mixture=mixture)
    optimizer = torch.optim.Adam(rnn.parameters(), 1e-2)
    for _ in range(150):
        latent = torch.randint(2, (6, 32, 1)).float().mul(2).sub(1).expand(6, 32, 2) + 0.05 * torch.randn(6, 32, 2)
        rows = (torch.zeros(6, 32, 3), torch.zeros(6, 32), torch.zeros(6, 32).bool(), torch.zeros(6, 32).bool())
        losses = mdn_losses(rnn, latent, *rows, end_weight=1.0)
        optimizer.zero_grad()
        sum(losses.values()).backward()
        optimizer.step()
    assert losses["latent"].item() < (0.0 if mixture == "factored" else -0.2)


def world_model(reads="memory"):
    spec = Spec(observation={"observation": ArraySpec(shape=(4,), dtype="float32")}, action=ACTION)
    same = IdentityRepresentation(IdentityConfig(_target_="x"), spec)
    same.learn_scale({"observation": torch.randn(50, 4)})
    return MDNWorldModel(same, memory(size=8), reads=reads, samples_latent=False)


@pytest.mark.parametrize("reads", ["memory", "nothing", "earlier_latent"])
def test_mdn_world_model_observes_sequences_as_it_does_step_by_step(reads):
    model = world_model(reads)
    seen, action = {"observation": torch.randn(6, 2, 4)}, torch.rand(6, 2, 3)
    is_first = torch.zeros(6, 2, dtype=torch.bool)
    is_first[0], is_first[3, 1] = True, True
    whole = model.observe_sequence(seen, action, is_first)
    state = model.initial(2)
    for t in range(6):
        state = model.observe(state, action[t], {"observation": seen["observation"][t]}, is_first[t])
        assert torch.allclose(model.features(state), model.features({k: v[t] for k, v in whole.items()}), atol=1e-6)
    assert model.features(state).shape == (2, feature_size(4, 8, reads))


def test_memory_of_mdn_world_model_is_empty_at_an_episodes_first_step():
    model = world_model()
    begun = model.observe(
        model.initial(2), torch.zeros(2, 3), {"observation": torch.randn(2, 4)}, torch.zeros(2).bool()
    )
    assert (begun["hidden"] == 0).all()
    later = model.observe(begun, torch.ones(2, 3), {"observation": torch.randn(2, 4)}, torch.zeros(2).bool())
    assert (later["hidden"] != 0).any()


def test_dream_of_mdn_world_model_remembers_as_its_observation_does():
    """The memory after an imagined step is the one after an observed one: both saw the same latent and action."""
    model = world_model()
    begun = model.observe(
        model.initial(2), torch.zeros(2, 3), {"observation": torch.randn(2, 4)}, torch.zeros(2).bool()
    )
    action = torch.rand(2, 3)
    imagined = model.imagine_step(begun, action)
    observed = model.observe(begun, action, {"observation": torch.randn(2, 4)}, torch.zeros(2).bool())
    assert torch.allclose(imagined["hidden"], observed["hidden"])
    assert torch.equal(model.predict_reward(imagined), model.predict_reward(observed))  # by the memory alone
