"""TMRL's critics over lidars as SAC's critics here, so that a training goes on with what it has learned."""

from __future__ import annotations

from itertools import count

import torch
from torch import Tensor

from paddock.components.controllers.critics import Critics, CriticsConfig
from paddock.tmrl.layouts import Layout
from paddock.tmrl.policies import column_order

Networks = dict[str, dict[str, Tensor]]


def critics_from(networks: Networks, layout: Layout) -> Critics | None:
    """The critics `q1`, `q2` (SAC) or `qs.0`, `qs.1`, ... (REDQ); None where they are no perceptrons over lidars."""
    names = [name for name in networks if name in ("q1", "q2") or name.startswith("qs.")]
    members = [_layers(networks[name]) for name in names]
    if (
        layout.has_images
        or not members
        or any(not layers or _shapes(layers) != _shapes(members[0]) for layers in members)
    ):
        return None
    spec = layout.spec()
    sizes = {name: part.size for name, part in spec.observation.items()}
    if members[0][0][0].shape[1] != layout.numbers + layout.action_size or members[0][-1][0].shape[0] != 1:
        return None
    config = CriticsConfig(
        _target_="paddock.components.controllers.critics.Critics",
        ensemble_size=len(members),
        hidden=[weight.shape[0] for weight, _ in members[0][:-1]],
        activation="relu",
        orthogonal=False,
    )
    made = Critics(config, spec)
    # Here parts are read by the alphabet; the action is behind them in both.
    columns = [*column_order(sizes, layout.parts), *range(layout.numbers, layout.numbers + layout.action_size)]
    with torch.no_grad():
        for member, layers in enumerate(members):
            for index, (place, (weight, bias)) in enumerate(
                zip([*made.network.hidden, made.network.head], layers, strict=True)
            ):
                if index == 0:
                    weight = torch.empty_like(weight).index_copy_(1, torch.tensor(columns), weight)
                place.weight[member], place.bias[member, 0] = weight.T, bias
    return made


def _layers(weights: dict[str, Tensor]) -> list[tuple[Tensor, Tensor]]:
    """Weight and bias of each linear layer of a perceptron `q.0`, `q.2`, ...; empty where it is something else."""
    found: list[tuple[Tensor, Tensor]] = []
    for number in count(0, 2):
        weight, bias = weights.get(f"q.{number}.weight"), weights.get(f"q.{number}.bias")
        if weight is None or bias is None or weight.dim() != 2 or bias.shape != weight.shape[:1]:
            break
        found.append((weight.detach().float(), bias.detach().float()))
    return found if 2 * len(found) == len(weights) else []


def _shapes(layers: list[tuple[Tensor, Tensor]]) -> list[torch.Size]:
    return [weight.shape for weight, _ in layers]
