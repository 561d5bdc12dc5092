import pytest
import torch
from torch import nn

from paddock.components.optimizers.adam import Adam, AdamConfig
from paddock.components.workers import Workers
from paddock.core.errors import InputError, NonFiniteError


def config(**values):
    return AdamConfig(**{"_target_": "it", "components": ["a", "b"], "learning_rate": 0.01, **values})


def networks():
    torch.manual_seed(0)
    return {"a": nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1)), "b": nn.Linear(3, 1)}


def loss_of(parts, inputs):
    return (parts["a"](inputs) * 3 - parts["b"](inputs) + 1).square().mean()


@pytest.mark.parametrize("limit", [None, 0.5])
def test_the_same_steps_as_torch_takes(limit):
    ours, theirs = networks(), networks()
    optimizer = Adam(config(max_gradient_norm=limit), ours)
    parameters = [*theirs["a"].parameters(), *theirs["b"].parameters()]
    reference = torch.optim.Adam(parameters, lr=0.01)
    for step in range(20):
        inputs = torch.randn(8, 3, generator=torch.Generator().manual_seed(step))
        norm = optimizer.descend(loss_of(ours, inputs))
        reference.zero_grad()
        loss_of(theirs, inputs).backward()
        expected = nn.utils.clip_grad_norm_(parameters, limit or 1e9)
        reference.step()
        assert norm == pytest.approx(expected.item(), rel=1e-5)
    for left, right in zip([*ours["a"].parameters(), *ours["b"].parameters()], parameters, strict=True):
        assert torch.allclose(left, right, atol=1e-6)


@pytest.mark.parametrize("workers", [1, 3])
def test_a_sum_of_losses_side_by_side_is_one_step(workers):
    ours, theirs = networks(), networks()
    optimizer, reference = Adam(config(), ours), Adam(config(), theirs)
    for step in range(10):
        inputs = torch.randn(40, 3, generator=torch.Generator().manual_seed(step))
        pieces = inputs.split(8)
        losses = [lambda piece=piece: loss_of(ours, piece) / 5 for piece in pieces]
        norm = optimizer.descend(*optimizer.differentiate_sum(losses, Workers(workers)))
        assert norm == pytest.approx(reference.descend(loss_of(theirs, inputs)), rel=1e-5)
    for name in ours:
        for left, right in zip(ours[name].parameters(), theirs[name].parameters(), strict=True):
            assert torch.allclose(left, right, atol=1e-6)


def test_a_piece_that_does_not_reach_a_parameter_adds_nothing():
    parts = networks()
    optimizer = Adam(config(max_gradient_norm=None), parts)
    inputs = torch.randn(8, 3)
    losses = [lambda: parts["a"](inputs).sum(), lambda: parts["b"](inputs).sum(), lambda: parts["b"](inputs).sum()]
    norm = optimizer.descend(*optimizer.differentiate_sum(losses, Workers(2)))
    expected = Adam(config(max_gradient_norm=None), theirs := networks())
    assert norm == pytest.approx(expected.descend(theirs["a"](inputs).sum() + 2 * theirs["b"](inputs).sum()), rel=1e-5)


def test_a_nan_in_one_piece_is_named():
    parts = networks()
    optimizer = Adam(config(), parts)
    before = parts["a"][0].weight.clone()
    losses = [lambda v=v: loss_of(parts, torch.full((2, 3), v)) for v in (1.0, torch.nan)]
    with pytest.raises(NonFiniteError, match="loss"):
        optimizer.descend(*optimizer.differentiate_sum(losses, Workers(2)))
    assert torch.equal(parts["a"][0].weight, before)


def test_descend_takes_gradients_that_were_found_before():
    ours, theirs = networks(), networks()
    optimizer, reference = Adam(config(), ours), Adam(config(), theirs)
    for step in range(3):
        inputs = torch.randn(8, 3, generator=torch.Generator().manual_seed(step))
        loss = loss_of(ours, inputs)
        norm = optimizer.descend(loss.detach(), optimizer.differentiate(loss))
        assert norm == reference.descend(loss_of(theirs, inputs))
    for name in ours:
        assert all(torch.equal(*pair) for pair in zip(ours[name].parameters(), theirs[name].parameters(), strict=True))


def test_descend_differentiates_nothing_but_its_own_parameters():
    parts = networks()
    optimizer = Adam(config(components=["a"]), parts)
    loss = loss_of(parts, torch.randn(8, 3))
    optimizer.descend(loss, retain_graph=True)
    assert parts["b"].weight.grad is None
    assert parts["a"][0].weight.grad.abs().sum() > 0  # what `--debug` shows
    assert Adam(config(components=["b"]), parts).descend(loss) > 0  # the graph is still there


def test_a_frozen_component_stays_where_it_is():
    parts = networks()
    optimizer = Adam(config(), parts)
    optimizer.descend(loss_of(parts, torch.randn(8, 3)))
    parts["b"].requires_grad_(False)
    before = {name: [p.clone() for p in part.parameters()] for name, part in parts.items()}
    for _ in range(3):
        optimizer.descend(loss_of(parts, torch.randn(8, 3)))
    assert all(torch.equal(*pair) for pair in zip(before["b"], parts["b"].parameters(), strict=True))
    assert not any(torch.equal(*pair) for pair in zip(before["a"], parts["a"].parameters(), strict=True))
    parts["b"].requires_grad_(True)
    optimizer.descend(loss_of(parts, torch.randn(8, 3)))
    assert not any(torch.equal(*pair) for pair in zip(before["b"], parts["b"].parameters(), strict=True))


def test_a_nan_is_named_before_it_reaches_the_weights():
    parts = networks()
    optimizer = Adam(config(), parts)
    before = parts["a"][0].weight.clone()
    with pytest.raises(NonFiniteError, match="loss"):
        optimizer.descend(loss_of(parts, torch.full((2, 3), torch.nan)))
    value = parts["b"](torch.zeros(1, 3)) - parts["b"].bias
    with pytest.raises(NonFiniteError, match=r"gradient of b.weight|gradient of b.bias"):
        optimizer.descend(value.sqrt().sum())
    assert torch.equal(parts["a"][0].weight, before)


def test_a_component_that_is_not_there_or_empty_is_refused():
    with pytest.raises(InputError, match="unknown component"):
        Adam(config(components=["c"]), networks())
    with pytest.raises(InputError, match="no parameters"):
        Adam(config(components=["a"]), {"a": nn.Tanh()})


def test_weight_decay_is_that_of_adamw():
    ours, theirs = networks(), networks()
    optimizer = Adam(config(weight_decay=0.3), ours)
    parameters = [*theirs["a"].parameters(), *theirs["b"].parameters()]
    reference = torch.optim.AdamW(parameters, lr=0.01, weight_decay=0.3, eps=optimizer.config.epsilon)
    for step in range(20):
        inputs = torch.randn(8, 3, generator=torch.Generator().manual_seed(step))
        optimizer.descend(loss_of(ours, inputs))
        reference.zero_grad()
        loss_of(theirs, inputs).backward()
        if optimizer.config.max_gradient_norm is not None:
            nn.utils.clip_grad_norm_(parameters, optimizer.config.max_gradient_norm)
        reference.step()
    for left, right in zip([*ours["a"].parameters(), *ours["b"].parameters()], parameters, strict=True):
        assert torch.allclose(left, right, atol=1e-6)
