"""Planners find optima that are known otherwise: in closed form, or by trying every sequence."""

from itertools import product

import pytest
import torch
from torch.nn import functional
from toy_models import LinearWorld, Maze, best_controls

from paddock.components.actions import from_vector, previous_actions, to_vector
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
