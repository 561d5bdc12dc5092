import pytest
import torch

from paddock.core.errors import InputError
from paddock.workflows.ppo import (
    explained_variance,
    normalize_by_minibatch,
    policy_loss,
    ratio_bounds,
    steered,
    value_loss,
)

BFLOAT16 = "paddock.components.networks.mlp.BFloat16MLP"


def test_the_surrogate_equals_the_papers_formula_with_its_gradient():
    torch.manual_seed(0)
    old, advantage = torch.randn(512) * 0.3, torch.randn(512)
    advantage[:5] = 0
    new = (old + torch.randn(512) * 0.3).requires_grad_()
    low, high = ratio_bounds(advantage, 0.2)
    ours = policy_loss(new, {"log_prob": old, "advantage": advantage, "ratio_low": low, "ratio_high": high})
    (gradient,) = torch.autograd.grad(ours, new)
    ratio = (new - old).exp()
    theirs = -torch.min(ratio * advantage, ratio.clamp(0.8, 1.2) * advantage).mean()
    (expected,) = torch.autograd.grad(theirs, new)
    assert torch.allclose(ours, theirs, atol=1e-6)
    assert torch.allclose(gradient, expected, atol=1e-8)


@pytest.mark.parametrize(("count", "size"), [(12, 4), (10, 4), (3, 8), (9, 4), (1, 4)])
def test_advantages_are_normalised_within_each_minibatch(count, size):
    advantage = torch.randn(count) * 5 + 3
    ours = normalize_by_minibatch(advantage, size)
    for start in range(0, count, size):
        run = advantage[start : start + size]
        expected = (run - run.mean()) / (run.std() + 1e-8) if len(run) > 1 else run
        assert torch.allclose(ours[start : start + size], expected, atol=1e-5)


def test_value_clipping_stops_values_that_ran_away():
    batch = {"return": torch.tensor([2.0]), "value": torch.tensor([0.0])}
    value = torch.tensor([1.0], requires_grad=True)
    loss = value_loss(value, batch, 0.5)
    assert loss.item() == pytest.approx(1.5**2)
    loss.backward()
    assert value.grad.item() == 0
    assert value_loss(value, batch, None).item() == pytest.approx(1.0)


def test_explained_variance():
    target = torch.randn(100)
    assert explained_variance(target, target).item() == pytest.approx(1.0)
    assert explained_variance(torch.zeros(100), target).item() == pytest.approx(0.0, abs=1e-5)


@pytest.mark.parametrize("fused", ["off", "on"])
def test_shards_change_nothing_but_rounding_and_threads_change_nothing_at_all(experiment, fused):
    def weights(name, *overrides):
        orchestrator = experiment("workflow.minibatch_size=128", f"workflow.fused={fused}", *overrides, name=name)
        orchestrator.run()
        return orchestrator.context.components["policy"].head.weight

    whole = weights("whole")
    one = weights("one", "workflow.shard_size=24", "workflow.workers=1")
    three = weights("three", "workflow.shard_size=24", "workflow.workers=3")
    assert torch.allclose(whole, one, atol=1e-4)
    assert not torch.equal(whole, one)  # the shards were really used
    assert torch.equal(one, three)


def test_fused_learning_is_that_of_autograd_up_to_rounding(experiment):
    def trained(name, *overrides):
        orchestrator = experiment("workflow.rollout_steps=128", "training.total_steps=256", *overrides, name=name)
        outcome = orchestrator.run()
        return orchestrator.context.components["policy"].head.weight, outcome.latest

    plain, plain_metrics = trained("plain", "workflow.fused=off")
    fused, fused_metrics = trained("fused", "workflow.fused=on")
    assert torch.allclose(plain, fused, atol=1e-4)
    assert not torch.equal(plain, fused)  # the kernel was really used
    for name in ("train/kl", "train/value_loss", "train/gradient_norm"):
        assert fused_metrics[name] == pytest.approx(plain_metrics[name], rel=1e-2, abs=1e-5)


def test_fused_on_says_what_it_cannot_be_used_with(experiment):
    networks = [f"components.{part}.network._target_={BFLOAT16}" for part in ("policy", "value")]
    with pytest.raises(InputError, match=r"fused=on cannot be used here: .*BFloat16MLP"):
        experiment("workflow.fused=on", *networks)
    experiment(*networks, name="auto").run()  # goes on by autograd, with hidden layers in half precision


def test_clip_fraction_counts_with_the_annealed_clip(experiment):
    """At the end of training nothing may move any more: whatever did move lies beyond the clip."""
    at_the_end = ["training.total_steps=128", "workflow.rollout_steps=128", "workflow.anneal_learning_rate=false"]
    annealed = experiment("workflow.anneal_clip=true", *at_the_end).run()
    assert annealed.latest["train/clip_fraction"] > 0.9
    plain = experiment("workflow.anneal_clip=false", "optimizers.main.learning_rate=1e-5", *at_the_end).run()
    assert plain.latest["train/clip_fraction"] == 0.0


@pytest.mark.parametrize(
    ("kl", "factor"),
    [(0.0, 1.5), (0.0049, 1.5), (0.005, 1.0), (0.01, 1.0), (0.02, 1.0), (0.0201, 1 / 1.5), (3.0, 1 / 1.5)],
)
def test_desired_kl_steers_the_learning_rate_outside_of_half_and_twice_its_value(kl, factor):
    assert steered(1e-3, kl, 0.01) == pytest.approx(1e-3 * factor)


def test_desired_kl_keeps_the_learning_rate_within_bounds():
    assert steered(1.2e-5, 1.0, 0.01) == 1e-5
    assert steered(9e-3, 0.0, 0.01) == 1e-2


@pytest.mark.parametrize(("desired", "factor"), [(1e-12, 1 / 1.5), (1e3, 1.5)])
def test_desired_kl_changes_the_learning_rate_after_each_rollout(experiment, desired, factor):
    orchestrator = experiment(f"workflow.desired_kl={desired}", "workflow.anneal_learning_rate=false")
    rate = orchestrator.context.optimizers["main"].learning_rate
    orchestrator.run()
    rates = [row["train/learning_rate"] for row in orchestrator.run_folder.read_metrics() if "train/kl" in row]
    assert rates == pytest.approx([rate * factor**rollout for rollout in range(1, 5)])


@pytest.mark.parametrize(("target", "epochs"), [(1e-12, 1), (1e3, 3)])
def test_target_kl_ends_the_epochs_of_a_rollout(experiment, target, epochs):
    """Four rollouts of 128 steps in minibatches of 64: each epoch is two updates."""
    orchestrator = experiment(
        f"workflow.target_kl={target}", "workflow.epochs=3", "workflow.anneal_learning_rate=false"
    )
    assert orchestrator.run().counters.updates == 4 * 2 * epochs
