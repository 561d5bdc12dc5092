"""Planners find optima that are known otherwise: in closed form, or by trying every sequence."""

from itertools import product

import pytest
import torch
from torch.nn import functional
from toy_models import LinearWorld, Maze, best_controls

from paddock.components.actions import from_vector, previous_actions, to_vector
from paddock.components.controllers.planners import _drawn
from paddock.components.controllers.plans import CategoricalPlan, GaussianPlan
from paddock.components.dynamics.imagination import imagined_return, score_by
from paddock.config.schema import instantiate, validate_target
from paddock.core.errors import NonFiniteError
from paddock.core.specs import ArraySpec

NUMBERS = ArraySpec(shape=(2,), dtype="float32", low=-1.0, high=1.0)
CHOICES = ArraySpec(shape=(), dtype="int64", choices=3)
SETTINGS = {
    "CEM": {"candidates": 400, "iterations": 12, "elites": 40, "min_std": 0.005, "std": 0.5},
    "MPPI": {"candidates": 400, "iterations": 12, "elites": 100, "temperature": 20.0, "min_std": 0.005},
    "RandomShooting": {"candidates": 20_000},
}


def planner(name, action, horizon, **changes):
    target = f"paddock.components.controllers.planners.{name}"
    return instantiate(validate_target({"_target_": target, "horizon": horizon, **SETTINGS[name], **changes}), action)


def planned(chosen, world, latent, **more):
    torch.manual_seed(3)
    batch = len(next(iter(latent.values())))
    previous = chosen.initial(batch, torch.device("cpu"))
    return chosen.plan(score_by(world, latent, gamma=1.0), previous, **more)


@pytest.mark.parametrize(("name", "tolerance"), [("CEM", 0.03), ("MPPI", 0.03), ("RandomShooting", 0.35)])
def test_continuous_plans_reach_the_closed_form_optimum(name, tolerance):
    world, horizon = LinearWorld(), 3
    x = torch.tensor([[0.6, -0.5], [0.0, 0.3], [-0.6, 0.1]])
    latent = {"x": x, "u": torch.zeros_like(x)}
    actions = planned(planner(name, NUMBERS, horizon), world, latent)
    best = torch.stack([best_controls(each, horizon) for each in x]).float()
    assert best.abs().max() < 1, "the bounds play no part"
    assert (actions - best).abs().max() < tolerance
    reached, possible = (imagined_return(world, latent, each.unsqueeze(1), gamma=1.0) for each in (actions, best))
    assert torch.all(possible - reached < tolerance**2)


@pytest.mark.parametrize("name", ["CEM", "MPPI", "RandomShooting"])
def test_plans_of_choices_are_the_best_of_all_sequences(name):
    depth, roots = 4, 4
    worlds = [Maze(3, depth, seed) for seed in range(roots)]
    every = torch.tensor(list(product(range(3), repeat=depth)))
    every = functional.one_hot(every, 3).float().unsqueeze(0)
    for world in worlds:
        latent = {"node": torch.zeros(1, dtype=torch.long)}
        returns = imagined_return(world, latent, every, gamma=0.9)
        actions = planned(planner(name, CHOICES, depth), world, latent)
        assert imagined_return(world, latent, actions.unsqueeze(1), gamma=0.9) >= returns.max() - 0.05
        assert torch.equal(actions.sum(-1), torch.ones(1, depth))


def test_the_batched_return_is_the_naive_sum():
    world, discount = Maze(3, 4), 0.9
    actions = functional.one_hot(torch.randint(3, (2, 5, 4)), 3).float()
    starts = torch.tensor([0, 2])
    found = imagined_return(
        world, {"node": starts}, actions[:, :, :3], gamma=discount, value=lambda latent: latent["node"] * 0.1
    )
    for b in range(2):
        for n in range(5):
            node, total, weight = int(starts[b]), 0.0, 1.0
            for t in range(3):
                node = node * 3 + 1 + int(actions[b, n, t].argmax())
                total += weight * float(world.reward[node])
                weight *= discount * float(world.goes_on[node])
            assert float(found[b, n]) == pytest.approx(total + weight * node * 0.1, rel=1e-5)


def test_environments_do_not_disturb_each_other():
    """Each row is planned for by itself: the same search finds each optimum whatever stands in the other rows."""
    world = LinearWorld()
    x = torch.tensor([[0.9, 0.0], [-0.9, 0.0]])
    actions = planned(planner("CEM", NUMBERS, 1), world, {"x": x, "u": torch.zeros_like(x)})
    best = torch.stack([best_controls(each, 1) for each in x]).float()
    assert best[0, 0, 0].clamp(-1, 1) == -best[1, 0, 0].clamp(-1, 1)
    assert (actions - best.clamp(-1, 1)).abs().max() < 0.05


def test_proposals_compete():
    world = LinearWorld()
    x = torch.tensor([[0.8, -0.5]])
    best = best_controls(x[0], 3).float()[None, None]
    few = planner("RandomShooting", NUMBERS, 3, candidates=3)
    assert torch.equal(planned(few, world, {"x": x, "u": x * 0}, proposals=best), best[:, 0])


@pytest.mark.parametrize("action", [NUMBERS, CHOICES])
def test_a_warm_start_goes_on_where_the_last_plan_was(action):
    world = LinearWorld() if action is NUMBERS else Maze(3, 6)
    x = torch.zeros(1, 2)
    latent = {"x": x, "u": x} if action is NUMBERS else {"node": torch.zeros(1, dtype=torch.long)}
    previous = torch.rand(1, 4, 2) if action is NUMBERS else functional.one_hot(torch.tensor([[0, 1, 2, 1]]), 3).float()
    seen = []

    def score(candidates):
        seen.append(candidates)
        return score_by(world, latent, gamma=1.0)(candidates)

    chosen = planner("CEM", action, 4, warm_start=True, iterations=1, candidates=4_000, elites=8, std=0.1)
    chosen.plan(score, previous)
    middle = seen[0].mean(1)
    moved_on = torch.cat([previous[:, 1:], previous[:, -1:]], 1)
    if action is NUMBERS:
        assert (middle - moved_on.clamp(-1, 1)).abs().max() < 0.05
    else:
        assert torch.equal(middle.argmax(-1), moved_on.argmax(-1))
        assert middle.min() > 0.1, "and nothing is ruled out"


def test_a_model_that_gives_no_numbers_is_refused():
    with pytest.raises(NonFiniteError, match="the returns that a planner was given"):
        planned(planner("CEM", NUMBERS, 2), LinearWorld(), {"x": torch.full((1, 2), torch.nan), "u": torch.zeros(1, 2)})


def test_actions_and_their_vectors():
    choices = torch.tensor([[2, 0], [1, 1]])
    vectors = to_vector(choices, CHOICES)
    assert vectors.shape == (2, 2, 3)
    assert torch.equal(from_vector(vectors, CHOICES), choices)
    grid = ArraySpec(shape=(2, 2), dtype="float32", low=-1.0, high=1.0)
    numbers = torch.rand(5, 7, 2, 2)
    assert to_vector(numbers, grid).shape == (5, 7, 4)
    assert torch.equal(from_vector(to_vector(numbers, grid), grid), numbers)
    assert torch.equal(to_vector(3 * numbers - 1.5, grid).view_as(numbers), (3 * numbers - 1.5).clamp(-1, 1))


def test_previous_actions_led_to_each_row():
    vectors = to_vector(torch.tensor([[2, 1], [0, 1]]), CHOICES)  # two steps of two sequences
    led = previous_actions(vectors, torch.tensor([[True, False], [False, True]]))
    assert torch.equal(led[1, 0], vectors[0, 0])
    assert led[0].abs().sum() == led[:, 1].abs().sum() == 0


def value_to_go(latent, steps):
    """What the best controls for so many steps gather from here, in closed form."""
    x = latent["x"]
    best = torch.stack([best_controls(each, steps) for each in x]).float()
    return imagined_return(LinearWorld(), latent, best.unsqueeze(1), gamma=1.0).squeeze(1)


@pytest.mark.parametrize("select", ["mean", "sample"])
def test_mppi_with_a_terminal_value_takes_the_first_action_of_the_long_plan(select):
    """One step and the true value of what follows lead to the closed form of four steps."""
    x = torch.tensor([[0.6, -0.5], [-0.3, 0.4]])
    latent = {"x": x, "u": torch.zeros_like(x)}
    score = score_by(LinearWorld(), latent, gamma=1.0, value=lambda reached: value_to_go(reached, 3))
    chosen = planner("MPPI", NUMBERS, 1, select=select, shift_in="zero", max_std=2.0, temperature=200.0)
    torch.manual_seed(3)
    found = chosen.search(score, chosen.initial(2, torch.device("cpu")))
    best = torch.stack([best_controls(each, 4) for each in x]).float()
    assert (found.actions[:, 0] - best[:, 0]).abs().max() < 0.05


def test_mppi_round_is_the_naive_one():
    """One round with proposals inside the population, momentum and bounds, candidate by candidate."""
    torch.manual_seed(0)
    chosen = planner(
        "MPPI", NUMBERS, 3, candidates=10, elites=4, iterations=1, temperature=0.5, std=2.0, max_std=0.9, min_std=0.05,
        warm_start=True, shift_in="zero", proposals="replace", momentum=0.1, select="sample",
    )  # fmt: skip
    previous, proposals, seen = torch.rand(1, 3, 2), torch.rand(1, 4, 3, 2), []

    def score(candidates):
        seen.append(candidates)
        return candidates.sum((2, 3))

    found = chosen.search(score, previous, proposals)
    (candidates,) = seen
    assert candidates.shape == (1, 10, 3, 2), "proposals count inside the population"
    assert torch.equal(candidates[:, 6:], proposals)
    ranked = sorted(candidates[0], key=lambda one: -float(one.sum()))[:4]
    weights = torch.stack([(0.5 * (one.sum() - ranked[0].sum())).exp() for one in ranked])
    weights = weights / weights.sum()
    mean = sum(weight * one for weight, one in zip(weights, ranked, strict=True))
    std = sum(weight * (one - mean) ** 2 for weight, one in zip(weights, ranked, strict=True)).sqrt()
    begun = torch.cat([previous[0, 1:], torch.zeros(1, 2)])
    assert torch.allclose(found.memory[0], 0.1 * begun + 0.9 * mean, atol=1e-6)
    assert torch.allclose(found.plan.std[0], std.clamp(0.05, 0.9), atol=1e-5)
    assert any(torch.equal(found.actions[0], one) for one in ranked), "an elite, not the mean"


def test_mppi_draws_elites_by_their_weights():
    torch.manual_seed(0)
    sequences = torch.tensor([0.0, 1.0])[None, :, None, None].expand(4_000, 2, 1, 2)
    chosen = planner("MPPI", NUMBERS, 1, candidates=2, elites=2, iterations=1, select="sample", proposals="join")
    weights = chosen._weights(torch.tensor([[1.0, 0.9]])).expand(4_000, 2)
    share = float((_drawn(sequences, weights)[:, 0, 0] == 1).float().mean())
    assert share == pytest.approx(float(weights[0, 1]), abs=0.03)


@pytest.mark.parametrize("action", [NUMBERS, CHOICES])
def test_a_plans_own_spread_is_what_it_tries_out(action):
    torch.manual_seed(0)
    first = torch.zeros(5_000, 2) if action is NUMBERS else functional.one_hot(torch.zeros(5_000).long(), 3).float()
    if action is NUMBERS:
        plan = GaussianPlan(torch.zeros(5_000, 3, 2), torch.full((5_000, 3, 2), 0.3), 0.05)
        assert float(plan.varied(first).std()) == pytest.approx(0.3, rel=0.05)
    else:
        chances = torch.tensor([0.7, 0.2, 0.1])
        plan = CategoricalPlan(chances.expand(5_000, 3, 3), 0.05)
        assert torch.allclose(plan.varied(first).mean(0), chances, atol=0.03)


@pytest.mark.parametrize("name", ["CEM", "MPPI", "RandomShooting"])
def test_a_scheduled_search_looks_less_far(name):
    shapes = []
    chosen = planner(name, NUMBERS, 5)
    found = chosen.search(
        lambda candidates: shapes.append(candidates.shape) or candidates.sum((2, 3)),
        torch.zeros(1, 5, 2),
        horizon=2,
        min_std=0.4,
    )
    assert {shape[2] for shape in shapes} == {2}
    assert found.actions.shape == (1, 2, 2)
    assert found.memory.shape == (1, 5, 2)
    assert not found.memory[:, 2:].any()
    if found.plan is not None:
        assert float(found.plan.std.min()) == pytest.approx(0.4)
