"""PPO's loss and its gradient for a policy and a value at once, by the compiled kernel, where their networks fit it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from paddock.components.controllers.policy import chosen
from paddock.components.networks import packed
from paddock.components.networks.mlp import flatten_observation
from paddock.components.networks.packed import PackedMLP
from paddock.components.normalizers import ObservationNormalizer
from paddock.components.workers import Workers

Samples = dict[str, Any]
READ = ("rows", "log_prob", "advantage", "ratio_low", "ratio_high", "return", "value")  # of a sample
NO_ACTIONS, NO_CHOICES = np.zeros((0, 0), np.float32), np.zeros(0, np.int64)


def obstacle(policy: Any, value: Any, normalizer: ObservationNormalizer, observation: Iterable[str]) -> str | None:
    """Why the kernel cannot learn with this policy, this value and these parts of an observation; None where it can."""
    if policy.is_recurrent or value.is_recurrent:
        return "a network has a memory"
    if policy.auxiliary_targets:
        return "the policy has auxiliary_targets"
    if policy.config.parts != value.config.parts:
        return "the policy and the value read different parts of the observation"
    if others := sorted(set(policy.config.parts or observation) - set(normalizer.statistics)):
        return f"part '{others[0]}' of the observation has no floats"
    activations = {getattr(part.network.config, "activation", None) for part in (policy, value)}
    reason = packed.obstacle(policy.network) or packed.obstacle(value.network)
    return reason or ("policy and value have different activations" if len(activations) > 1 else None)


class FusedActorCritic:
    """Gradients of PPO's loss for a minibatch, shard by shard; shards are added up in their order, so that the number
    of threads does not change a result. It also lets policy and value compute by the kernel where no gradient is
    asked for."""

    def __init__(
        self,
        policy: Any,
        value: Any,
        normalizer: ObservationNormalizer,
        *,
        value_coef: float,
        entropy_coef: float,
        value_clip: float | None,
        workers: Workers,
        shard_size: int,
    ) -> None:
        packed.kernels().warm_up()
        self._networks = self._policy, self._value = policy.pack(), value.pack()
        self._is_discrete, self._parts = policy.is_discrete, policy.config.parts
        clip, gain = (-1.0 if value_clip is None else value_clip), policy.config.log_std_gain
        self._options = [value_coef, entropy_coef, clip, gain]
        self._normalizer = normalizer
        self._workers, self._shard_size = workers, shard_size
        self._held: tuple[np.ndarray, ...] = ()
        places = [_gradients_of(network) for network in self._networks]
        self._found = [tuple(vector for vector, _ in places)]  # gradients of both networks, by shard
        self._views = {
            id(parameter): view
            for network, (_, views) in zip(self._networks, places, strict=True)
            for parameter, view in zip(network.parameters, views, strict=True)
        }

    def hold(self, samples: Samples) -> Samples:
        """Remember observations, not normalised, and actions of samples [N, ...], and the scale of the normaliser; in
        their place `rows` [N] says which of them a sample is, so that shuffling moves none."""
        observation = flatten_observation(chosen(samples["observation"], self._parts)).contiguous().numpy()
        action = samples["action"].contiguous().numpy()
        acted = (NO_ACTIONS, action) if self._is_discrete else (action.reshape(len(action), -1), NO_CHOICES)
        self._held = self._normalizer.scaling(self._parts), observation, *acted
        rest = {name: part for name, part in samples.items() if name not in ("observation", "action")}
        return {**rest, "rows": torch.arange(len(action))}

    def gradients(self, samples: Samples, parameters: Sequence[nn.Parameter]) -> tuple[Tensor, list[Tensor]]:
        """The mean loss over samples [M, ...] of those that it holds, and its gradients by `parameters`, which are of
        the two networks; they are valid until the next call."""
        count = len(samples["rows"])
        arrays = [samples[name].numpy() for name in READ]
        options = np.array([*self._options, count], np.float32)
        starts = range(0, count, self._shard_size)
        policy, policy_layers, log_std_at = self._policy.arrays()
        value, value_layers, _ = self._value.arrays()
        networks = policy, policy_layers, log_std_at, value, value_layers, self._policy.kind
        while len(self._found) < len(starts):
            self._found.append((np.zeros_like(policy), np.zeros_like(value)))
        compute = packed.kernels().gradients

        def of_shard(number: int) -> float:
            rows = slice(starts[number], starts[number] + self._shard_size)
            return compute(*networks, *self._held, *(array[rows] for array in arrays), options, *self._found[number])

        losses = self._workers.map(of_shard, range(len(starts)))
        for found in self._found[1 : len(starts)]:
            for whole, part in zip(self._found[0], found, strict=True):
                whole += part
        return torch.tensor(sum(losses)), [self._views[id(parameter)] for parameter in parameters]


def _gradients_of(network: PackedMLP) -> tuple[np.ndarray, list[Tensor]]:
    """Room for gradients in the layout of the parameters [P], and its parts by parameter: the optimizer's own where it
    has the same layout, so that nothing is copied."""
    parameters = network.parameters
    views = [parameter.grad for parameter in parameters if parameter.grad is not None]
    if network.is_in_place and len(views) == len(parameters):
        is_one = len({view.untyped_storage().data_ptr() for view in views}) == 1
        if is_one and all(p.storage_offset() == v.storage_offset() for p, v in zip(parameters, views, strict=True)):
            return torch.empty(0).set_(views[0].untyped_storage()).numpy(), views
    vector = np.zeros_like(network.arrays()[0])
    return vector, network.views(vector)
