"""The exponential average (EMA) of weights, and min-max ranges, against plain versions."""

import pytest
import torch
from torch import nn

from paddock.components.exponential_average import ExponentialAverage
from paddock.components.learning import set_frozen
from paddock.components.optimizers.adam import Adam, AdamConfig
from paddock.components.ranges import MinMaxRange


def network():
    return nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 2))


def optimizer_for(source):
    config = AdamConfig(_target_="paddock.components.optimizers.adam.Adam", components=["policy"], learning_rate=0.1)
    return Adam(config, {"policy": source})


@pytest.mark.parametrize("is_flat", [True, False])
def test_exponential_average_equals_a_plain_average_parameter_by_parameter(is_flat):
    torch.manual_seed(0)
    source, average = network(), network()
    if is_flat:
        optimizer_for(source)  # lays the weights end to end
    ema = ExponentialAverage(average, source, power=0.75, most=0.9)
    assert len(ema._average) == (1 if is_flat else 4)
    plain = [parameter.detach().clone() for parameter in source.parameters()]
    for update in range(30):
        with torch.no_grad():
            for parameter in source.parameters():
                parameter.add_(torch.randn_like(parameter))
        decay = ema.update(update)
        assert decay == pytest.approx(min(1 - (1 + update) ** -0.75, 0.9))
        plain = [decay * one + (1 - decay) * new.detach() for one, new in zip(plain, source.parameters(), strict=True)]
    for one, found in zip(plain, average.parameters(), strict=True):
        assert torch.allclose(one, found, atol=1e-5)
    assert not torch.allclose(next(average.parameters()), next(source.parameters()))


def test_exponential_average_follows_what_an_optimizer_learns_and_stops_when_frozen():
    source, average = network(), network()
    optimizer = optimizer_for(source)
    ema = ExponentialAverage(average, source, power=0.75, most=0.5)
    for update in range(50):
        optimizer.descend(source(torch.ones(1, 3)).square().sum())
        ema.update(update)
    assert average(torch.ones(1, 3)).square().sum() < 1e-2
    before = [parameter.clone() for parameter in average.parameters()]
    set_frozen(source, True)
    with torch.no_grad():
        next(source.parameters()).add_(1.0)
    ema.update(50)
    assert all(torch.equal(one, now) for one, now in zip(before, average.parameters(), strict=True))


def test_exponential_average_survives_loading_a_state():
    source, average = network(), network()
    optimizer_for(source)
    ema = ExponentialAverage(average, source, power=0.75, most=0.5)
    other = network()
    average.load_state_dict(other.state_dict())  # As a checkpoint does: in place.
    with torch.no_grad():
        for parameter in source.parameters():
            parameter.zero_()
    ema.update(10_000)
    for one, found in zip(other.parameters(), average.parameters(), strict=True):
        assert torch.allclose(found, one / 2)


def test_min_max_range_maps_data_to_minus_one_and_one_and_back():
    span = MinMaxRange((3,))
    data = torch.tensor([[2.0, -5.0, 7.0], [4.0, 5.0, 7.0], [3.0, 0.0, 7.00001]])
    span.fit(data.amin(0), data.amax(0))
    assert torch.allclose(span(data)[:, :2], torch.tensor([[-1.0, -1.0], [1.0, 1.0], [0.0, 0.0]]))
    assert span(data)[:, 2].abs().max() < 1e-4  # What hardly varies is only centred.
    assert torch.allclose(span.inverse(span(data)), data)
    assert span(torch.tensor([1e6, 0.0, 7.0]))[0] == 2.0
