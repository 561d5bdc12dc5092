import math

import pytest
import torch
from torch import nn

from paddock.components.optimizers.adam import LaProp, LaPropConfig
from paddock.core.errors import NonFiniteError


def make(**changes):
    torch.manual_seed(0)
    part = nn.Sequential(nn.Linear(3, 5), nn.Linear(5, 2)).double()
    settings = {"learning_rate": 0.05, "epsilon": 1e-20, "adaptive_clip": None, **changes}
    return part, LaProp(LaPropConfig(_target_="x", components=["part"], **settings), {"part": part})


def naive_steps(parameters, gradients, rate, clip, warm_up, half_life):
    """Clip by norm ratio, root mean square, momentum, one parameter after the other, with plain formulas."""
    values = [value.clone() for value in parameters]
    seconds, firsts = ([torch.zeros_like(value) for value in values] for _ in range(2))
    for step, found in enumerate(gradients, 1):
        for index, gradient in enumerate(found):
            if clip is not None:
                limit = clip * max(values[index].norm().item(), 1e-3)
                gradient = gradient * min(1.0, limit / gradient.norm().item())
            seconds[index] = 0.999 * seconds[index] + 0.001 * gradient**2
            scaled = gradient / (seconds[index] / (1 - 0.999**step)).sqrt()
            firsts[index] = 0.9 * firsts[index] + 0.1 * scaled
            now = rate * min(1, step / max(warm_up, 1)) * (0.5 ** (step / half_life) if half_life else 1)
            values[index] -= now * firsts[index] / (1 - 0.9**step)
    return values


@pytest.mark.parametrize(("clip", "warm_up", "half_life"), [(None, 0, None), (0.3, 0, 4), (0.3, 4, None), (0.3, 2, 3)])
def test_steps_equal_the_plain_formulas(clip, warm_up, half_life):
    part, optimizer = make(adaptive_clip=clip, warm_up=warm_up, half_life=half_life)
    before = [parameter.detach().clone() for parameter in part.parameters()]
    gradients = [[torch.randn_like(parameter) * 3 for parameter in before] for _ in range(6)]
    for found in gradients:
        optimizer.descend(torch.zeros(()), found)
    wanted = naive_steps(before, gradients, 0.05, clip, warm_up, half_life)
    for value, expected in zip(part.parameters(), wanted, strict=True):
        assert torch.allclose(value, expected, rtol=1e-6)


def test_state_is_saved_and_what_is_not_finite_refused():
    part, optimizer = make(warm_up=3)
    gradients = [torch.ones_like(parameter) for parameter in part.parameters()]
    optimizer.descend(torch.zeros(()), gradients)
    other, resumed = make(warm_up=3)
    other.load_state_dict(part.state_dict())
    resumed.load_state_dict(optimizer.state_dict())
    for one in (optimizer, resumed):
        one.descend(torch.zeros(()), gradients)
    assert all(torch.equal(a, b) for a, b in zip(part.parameters(), other.parameters(), strict=True))
    gradients[0][0, 0] = math.inf
    with pytest.raises(NonFiniteError, match=r"gradient of part.0.weight"):
        optimizer.descend(torch.zeros(()), gradients)


def test_weight_decay_shrinks_weights_by_the_rate_before_the_step():
    plain, decayed = make(), make(weight_decay=0.4)
    before = [parameter.detach().clone() for parameter in plain[0].parameters()]
    gradients = [torch.randn_like(parameter) for parameter in before]
    for part, optimizer in (plain, decayed):
        optimizer.descend(torch.zeros(()), gradients)
        assert all(parameter.isfinite().all() for parameter in part.parameters())
    for start, left, right in zip(before, plain[0].parameters(), decayed[0].parameters(), strict=True):
        torch.testing.assert_close(right, left - 0.05 * 0.4 * start)
