import pytest
import torch
from torch.distributions import Categorical, Independent, Normal, OneHotCategorical, kl_divergence
from torch.nn import functional

from paddock.components.actions import to_vector
from paddock.components.devices import autocast
from paddock.components.dynamics.imagination import imagined_return
from paddock.components.dynamics.rssm import RSSM, BlockTransition, CategoricalLatent, GaussianLatent, RSSMConfig
from paddock.components.dynamics.world_model import WorldModel, WorldModelConfig
from paddock.components.networks.heads import NumberHead, NumberHeadConfig
from paddock.components.representation_learners.autoencoder import VECTOR
from paddock.core.errors import InputError
from paddock.core.specs import ArraySpec, Spec
from paddock.workflows.world_model_update import apply_free_nats, weighted_sum, world_model_losses

NUMBERS = {"observation": ArraySpec(shape=(3,), dtype="float32")}
MIXED = {
    "speed": ArraySpec(shape=(), dtype="float32"),
    "camera": ArraySpec(shape=(16, 16, 3), dtype="uint8"),
    "grid": ArraySpec(shape=(2, 2), dtype="float32"),
    "grey": ArraySpec(shape=(4, 32, 16), dtype="uint8"),
}
STEER = ArraySpec(shape=(2,), dtype="float32", low=-1.0, high=1.0)
CHOICE = ArraySpec(shape=(), dtype="int64", choices=4)
KINDS = {
    "block": {"cell": "block_gru", "blocks": 4, "norm": "rms"},
    "gru": {"cell": "gru", "norm": "layer"},
    "gaussian": {"cell": "gru", "stochastic": "gaussian", "norm": "none"},
}
B, T = 4, 6


@pytest.fixture(autouse=True)
def one_thread():
    """These networks are far too small to be shared among threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def make(observation=NUMBERS, action=STEER, standardize=False, **rssm):
    torch.manual_seed(0)
    layer = {"layers": 1, "units": 16, "norm": "layer"}
    config = WorldModelConfig(
        _target_="x",
        rssm={"deter": 16, "hidden": 12, "groups": 3, "classes": 4, **rssm},
        encoder={**layer, "depth": 2, "standardize": standardize},
        decoder={**layer, "depth": 2},
        reward={**layer, "output_scale": 0.0},
        **{"continue": layer},
    )
    return WorldModel(config, Spec(observation=observation, action=action, is_dict=len(observation) > 1))


def batch(model):
    observation = {
        name: torch.randint(0, 256, (T, B, *part.shape), dtype=torch.uint8)
        if part.dtype == "uint8"
        else torch.randn(T, B, *part.shape)
        for name, part in model.spec.observation.items()
    }
    choices = model.spec.action.choices
    action = torch.randint(choices, (T, B)) if choices else torch.randn(T, B, *model.spec.action.shape)
    is_first = torch.zeros(T, B, dtype=torch.bool)
    is_first[3, 1] = is_first[0, 2] = True
    return observation, to_vector(action, model.spec.action), is_first


def without_chance(model):
    """The same noise everywhere."""
    size = model.rssm.stochastic.size
    model.rssm.stochastic.noise = lambda *shape, device: torch.ones(*shape, size)
    return model


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("action", [STEER, CHOICE], ids=["continuous", "discrete"])
def test_a_sequence_is_its_steps_one_by_one(kind, action):
    model = without_chance(make(action=action, **KINDS[kind]))
    observation, taken, is_first = batch(model)
    latents = model.observe_sequence(observation, taken, is_first)
    latent = model.initial(B)
    for t in range(T):
        seen = {name: part[t] for name, part in observation.items()}
        latent = model.observe(latent, taken[t], seen, is_first[t])
        assert set(latent) == {"deter", "stoch"}
        for name, part in latent.items():
            assert torch.allclose(part, latents[name][t], atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_an_episode_that_begins_forgets_what_was(kind):
    model = without_chance(make(**KINDS[kind]))
    observation, taken, is_first = batch(model)
    latents = model.observe_sequence(observation, taken, is_first)
    later = {name: part[3:, 1:2] for name, part in observation.items()}
    action = taken[3:, 1:2].clone()
    action[0] = 99.0  # What was done before does not belong to the new episode either.
    fresh = model.observe_sequence(later, action, is_first[3:, 1:2])
    assert torch.allclose(latents["deter"][3:, 1:2], fresh["deter"], atol=1e-5)
    assert not torch.allclose(latents["deter"][3:, 0:1], fresh["deter"], atol=1e-3)


def test_the_posterior_gets_gradients_through_time():
    model = make(**KINDS["block"])
    observation, taken, is_first = batch(model)
    observation["observation"].requires_grad_()
    features = model.features(model.observe_sequence(observation, taken, is_first))[-1]
    # Weighted: probabilities add up to one, so that their plain sum has no gradient.
    (features * torch.randn(features.shape[-1])).sum().backward()
    found = observation["observation"].grad.abs().sum(-1)
    assert (found[:, 0] > 0).all()
    assert (found[:3, 1] == 0).all()  # It began anew at its fourth step.
    assert (found[3:, 1] > 0).all()


def test_every_kind_of_observation_comes_back_in_its_own_units():
    model = make(observation=MIXED)
    observation, taken, is_first = batch(model)
    latents = model.observe_sequence(observation, taken, is_first)
    decoded = model.decode({name: latents[name][0] for name in ("deter", "stoch")})
    assert list(decoded) == list(MIXED)
    assert {name: part.shape[1:] for name, part in decoded.items()} == {n: part.shape for n, part in MIXED.items()}
    assert 0 <= decoded["camera"].min() < 100 < decoded["camera"].max() <= 255
    assert model.predict_reward(latents).shape == model.predict_continue(latents).shape == (T, B)
    assert (model.predict_reward(latents) == 0).all()
    assert ((model.predict_continue(latents) > 0) & (model.predict_continue(latents) < 1)).all()


def test_standardized_numbers_are_seen_and_predicted_at_one_scale():
    model = make(observation=MIXED, standardize=True)
    observation, *_ = batch(model)
    observation["speed"] = 300 + 5 * observation["speed"]
    observation["grid"][..., 0] *= 0.2
    first, second = ({name: part[rows] for name, part in observation.items()} for rows in (slice(1), slice(1, T)))
    model.learn_scale(first)
    model.learn_scale(second)
    rows = {name: part.flatten(0, 1) for name, part in observation.items()}
    numbers = torch.cat([rows["grid"].flatten(1), rows["speed"][:, None]], -1)
    naive = (numbers - numbers.mean(0)) / numbers.std(0, correction=0)
    seen = model.encoder.vector(rows)
    assert torch.allclose(seen, naive.sign() * naive.abs().log1p(), atol=5e-3)
    guessed = model.decoder(torch.zeros(len(seen), model.config.rssm.features))
    back = model.decoder.to_observation({**guessed, VECTOR: seen})
    assert torch.allclose(back["speed"], rows["speed"], atol=1e-2)
    assert torch.allclose(back["grid"], rows["grid"], atol=1e-4)


def test_what_is_not_standardized_has_no_scale_to_learn():
    model = make(observation=MIXED)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    model.learn_scale(batch(model)[0])
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())


def test_pictures_that_cannot_be_halved_are_refused():
    with pytest.raises(InputError, match=r"'camera' has 30 x 30 pixels.*for example 64"):
        make(observation={"camera": ArraySpec(shape=(30, 30, 3), dtype="uint8")})


def test_a_model_learns_to_tell_what_it_sees():
    """Two kinds of episodes, told apart by one number: reconstruction, reward and continuation are learned."""
    model = make(**KINDS["gru"])
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    sign = torch.tensor([1.0, -1, 1, -1]).expand(T, B)
    sample = {
        "observation": {"observation": sign[..., None].expand(T, B, 3)},
        "reward": 5 * sign,
        "continue": (sign > 0),
    }
    sample["continue"] = sample["continue"].float()
    for _ in range(100):
        latents = model.observe_sequence(
            sample["observation"], torch.zeros(T, B, 2), torch.zeros(T, B, dtype=torch.bool)
        )
        losses, _ = world_model_losses(model, latents, sample, free_nats=1.0, free_mean=False)
        optimizer.zero_grad()
        weighted_sum(losses, dict.fromkeys(losses, 1.0)).backward()
        optimizer.step()
    # Latents are drawn, and right from the second step on: what is free of charge at the first may be drawn wrongly.
    assert (model.predict_reward(latents) - sample["reward"])[1:].abs().max() < 1
    assert ((model.predict_continue(latents) > 0.5) == (sign > 0))[1:].all()
    decoded = model.decode({name: latents[name][-1] for name in ("deter", "stoch")})
    assert (decoded["observation"] - sign[0, :, None]).abs().max() < 0.3


def test_blocks_are_separate_but_for_what_they_share():
    """The block-diagonal cell against one block after the other, with concatenated inputs."""
    torch.manual_seed(0)
    cell = BlockTransition(8, 3, 2, 5, 2, activation="silu", norm="none")
    deter, stoch, action = torch.randn(4, 8), torch.randn(4, 3), torch.randn(4, 2)
    shared = torch.cat([cell.from_deter(deter), cell.from_stoch(stoch), cell.from_action(action)], -1)
    parts = []
    for block in range(2):
        own = slice(4 * block, 4 * block + 4)
        weights = torch.cat([cell.own.weight[block], cell.shared.weight[own].T, cell.shared_action.weight[own].T])
        joined = torch.cat([deter[:, own], shared], -1) @ weights + cell.shared_action.bias[own]
        gates = torch.nn.functional.silu(joined) @ cell.gates.weight[block] + cell.gates.bias[block]
        reset, candidate, update = gates.chunk(3, -1)
        update = (update - 1).sigmoid()
        parts.append(update * (reset.sigmoid() * candidate).tanh() + (1 - update) * deter[:, own])
    assert torch.allclose(cell(deter, stoch, cell.prepare(action)), torch.cat(parts, -1), atol=1e-6)


def test_the_kl_of_choices_is_the_textbooks():
    latent = CategoricalLatent(3, 4, 0.01)
    first, second = torch.randn(2, 5, 12)

    def mixed(outputs):
        probabilities = 0.99 * outputs.view(5, 4, 3).mT.softmax(-1) + 0.01 / 4
        return Independent(OneHotCategorical(probs=probabilities), 1)

    assert torch.allclose(latent.kl(first, second), kl_divergence(mixed(first), mixed(second)), atol=1e-5)


def test_the_kl_of_numbers_is_the_textbooks():
    latent = GaussianLatent(6)
    first, second = torch.randn(2, 5, 12)

    def normal(outputs):
        return Independent(Normal(outputs[:, :6], torch.nn.functional.softplus(outputs[:, 6:]) + 0.1), 1)

    assert torch.allclose(latent.kl(first, second), kl_divergence(normal(first), normal(second)), atol=1e-4)


def test_choices_are_drawn_as_often_as_they_are_likely():
    latent = CategoricalLatent(1, 4, 0.01)
    outputs = torch.tensor([0.0, 1.0, -2.0, 2.0])
    torch.manual_seed(0)
    drawn = latent.draw(outputs.expand(20_000, 4), latent.noise(20_000, device=torch.device("cpu")))
    assert (drawn.sum(-1) == 1).all()
    expected = 0.99 * Categorical(logits=outputs).probs + 0.0025
    assert drawn.mean(0).tolist() == pytest.approx(expected.tolist(), abs=0.01)


def test_draws_pass_the_probabilities_gradient_straight_through():
    latent = CategoricalLatent(2, 3, 0.0)
    outputs, weights = torch.randn(6, requires_grad=True), torch.randn(6)
    drawn = latent.draw(outputs, torch.ones(6))
    (found,) = torch.autograd.grad((drawn * weights).sum(), outputs)
    (expected,) = torch.autograd.grad((outputs.view(3, 2).softmax(0).flatten() * weights).sum(), outputs)
    assert torch.allclose(found, expected)


@pytest.mark.parametrize("kind", KINDS)
def test_kl_balances_as_the_papers_say(kind):
    """V2: 0.8 KL(sg(post) || prior) + 0.2 KL(post || sg(prior)); V1: both in full have the gradient of the plain."""
    model = make(**KINDS[kind])
    size = model.rssm.stochastic.outputs
    posterior, prior = torch.randn(2, T, B, size).requires_grad_().unbind()
    posterior.retain_grad(), prior.retain_grad()
    dynamics, representation = model.kl({"posterior": posterior, "prior": prior})
    plain = model.rssm.stochastic.kl(posterior, prior)
    assert torch.allclose(dynamics, plain)
    assert torch.allclose(representation, plain)
    whole = torch.autograd.grad(plain.sum(), [posterior, prior], retain_graph=True)
    both = torch.autograd.grad((dynamics + representation).sum(), [posterior, prior], retain_graph=True)
    balanced = torch.autograd.grad((0.8 * dynamics + 0.2 * representation).sum(), [posterior, prior])
    for index, share in enumerate([0.2, 0.8]):
        assert torch.allclose(both[index], whole[index], atol=1e-6)
        assert torch.allclose(balanced[index], share * whole[index], atol=1e-6)


def test_free_nats_cost_nothing_and_teach_nothing():
    kl = torch.tensor([0.2, 0.9, 3.0, 5.0], requires_grad=True)
    each = apply_free_nats(kl, 1.0, of_mean=False)
    assert each.item() == pytest.approx((1 + 1 + 3 + 5) / 4)
    assert torch.autograd.grad(each, kl)[0].tolist() == [0, 0, 0.25, 0.25]
    assert apply_free_nats(kl, 1.0, of_mean=True).item() == pytest.approx(9.1 / 4)
    assert apply_free_nats(kl, 3.0, of_mean=True).item() == 3
    assert torch.autograd.grad(apply_free_nats(kl, 3.0, of_mean=True), kl)[0].tolist() == [0] * 4


@pytest.mark.parametrize("cell", ["gru", "block_gru"])
def test_a_transition_without_gradients_is_the_same_and_changes_no_input(cell):
    torch.manual_seed(0)
    config = RSSMConfig(deter=16, hidden=8, groups=3, classes=4, cell=cell, blocks=4)
    rssm = RSSM(config, embedding=5, action=2)
    deter, stoch, prepared = torch.randn(6, 16), torch.randn(6, 12), rssm.transition.prepare(torch.randn(6, 2))
    kept = [part.clone() for part in (deter, stoch, prepared)]
    learning = rssm.transition(deter, stoch, prepared)
    with torch.no_grad():
        looking = rssm.transition(deter, stoch, prepared)
    torch.testing.assert_close(looking, learning.detach())
    for one, other in zip(kept, (deter, stoch, prepared), strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize(
    ("precision", "ends", "temperature"),
    [("float32", "soft", 1.0), ("float32", "ignore", 0.0), ("bfloat16", "soft", 0.0)],
)
def test_a_batched_score_is_the_naive_one(precision, ends, temperature):
    """Candidate by candidate, from the model's equations written out: PlaNet's cell, its normal prior, its heads."""
    model = without_chance(make(**KINDS["gaussian"]))
    model.reward = NumberHead(NumberHeadConfig(layers=1, units=16, kind="normal"), model.config.rssm.features)
    latent = {"deter": torch.rand(2, 16) - 0.5, "stoch": torch.randn(2, 3)}
    actions = torch.rand(2, 5, 4, 2) * 2 - 1
    with torch.inference_mode(), autocast(torch.device("cpu"), precision):
        found = imagined_return(model, latent, actions, gamma=0.9, ends=ends, temperature=temperature).float()
    cell = model.rssm.transition
    for b in range(2):
        for n in range(5):
            deter, stoch, total, weight = latent["deter"][b], latent["stoch"][b], 0.0, 1.0
            for action in actions[b, n]:
                joined = cell.joined(cell.from_action(action) + cell.from_stoch(stoch))
                reset, candidate, update = cell.gates(torch.cat([joined, deter])).chunk(3)
                update = (update - 1).sigmoid()
                deter = update * (reset.sigmoid() * candidate).tanh() + (1 - update) * deter
                mean, std = model.rssm.prior(deter).chunk(2)
                stoch = mean + (functional.softplus(std) + 0.1) * temperature
                features = torch.cat([deter, stoch])
                total += weight * model.reward(features).item()
                weight *= 0.9 * (model.goes_on(features).sigmoid().item() if ends == "soft" else 1.0)
            assert found[b, n].item() == pytest.approx(total, abs=1e-5 if precision == "float32" else 0.1)


@pytest.mark.parametrize("kind", KINDS)
def test_a_cold_step_is_the_mode_of_what_is_drawn(kind):
    model = make(**KINDS[kind])
    latent, action = model.initial(3), torch.rand(3, 2)
    found = model.imagine_step(latent, action, temperature=0.0)
    drawn = torch.stack([model.imagine_step(latent, action)["stoch"] for _ in range(2_000)]).mean(0)
    if kind == "gaussian":
        assert torch.allclose(found["stoch"], drawn, atol=0.15)
    else:
        chosen = found["stoch"].bool()
        assert found["stoch"].sum() == 3 * 3
        assert (drawn[chosen] > 0.25 - 0.05).all()
        assert torch.equal(chosen.unflatten(-1, (4, -1)).sum(1), torch.ones(3, 3).long())
