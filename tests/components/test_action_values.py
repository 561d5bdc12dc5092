import math

import torch

from paddock.components.controllers.action_values import (
    ActionValues,
    ActionValuesConfig,
    ChoiceHead,
    QuantileValues,
    QuantileValuesConfig,
)
from paddock.core.specs import ArraySpec, Spec

SPEC = Spec(
    observation={"observation": ArraySpec(shape=(3,), dtype="float32")},
    action=ArraySpec(shape=(), dtype="int64", choices=4),
)
NETWORK = {"_target_": "paddock.components.networks.mlp.MLP", "hidden": [16]}


def test_a_dueling_head_is_value_plus_centred_advantage():
    head, features = ChoiceHead(5, 3, dueling=True), torch.randn(7, 5)
    found = head(features)
    assert torch.allclose(found.mean(-1, keepdim=True), head.value(features), atol=1e-6)
    assert torch.equal(found.argmax(-1), head.advantage(features).argmax(-1))


def test_every_choice_is_valued():
    values = ActionValues(ActionValuesConfig(_target_="it", network=NETWORK), SPEC)
    observation = {"observation": torch.randn(6, 3)}
    assert values(observation).shape == (6, 4)
    assert torch.equal(values.expected(observation), values(observation))


def test_quantiles_are_embedded_as_in_the_paper():
    config = QuantileValuesConfig(_target_="it", network=NETWORK, cosines=8, acting_quantiles=5, dueling=False)
    values = QuantileValues(config, SPEC)
    observation, fractions = {"observation": torch.randn(6, 3)}, torch.rand(6, 2)
    found = values(observation, fractions)
    assert found.shape == (6, 2, 4)
    features = values.network(observation["observation"])
    for sample, quantile in [(0, 0), (3, 1)]:
        tau = fractions[sample, quantile]
        cosines = torch.stack([torch.cos(math.pi * i * tau) for i in range(1, 9)])
        embedded = values.embedding[0](cosines).relu()
        alone = values.head(values.joined(features[sample] * embedded))
        assert torch.allclose(found[sample, quantile], alone, atol=1e-5)
    evenly = torch.tensor([0.1, 0.3, 0.5, 0.7, 0.9]).expand(6, 5)
    assert torch.allclose(values.expected(observation), values(observation, evenly).mean(1), atol=1e-6)
