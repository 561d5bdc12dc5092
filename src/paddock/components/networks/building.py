"""Building networks from configuration, with and without a memory."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from paddock.components.networks.mlp import encode
from paddock.config.schema import TargetSchema, instantiate, load_target
from paddock.core.errors import InputError
from paddock.core.specs import Spec


def build_network(config: TargetSchema, spec: Spec, *, may_be_recurrent: bool = False) -> Any:
    """The network that `config` describes, for the whole observation: sized by one vector, or by its parts."""
    kind = load_target(config.target_)
    if getattr(kind, "is_recurrent", False) and not may_be_recurrent:
        raise InputError(
            f"{kind.__name__} remembers, and nothing here keeps its memory. Recurrent networks go with PPO, as the "
            "network of its policy and its value."
        )
    if getattr(kind, "reads_parts", False):
        return instantiate(config, spec)
    return instantiate(config, sum(part.size for part in spec.observation.values()))


def is_recurrent(network: nn.Module) -> bool:
    """Whether a network has a memory, and therefore `initial_state`, `unroll` and a state to be handed on."""
    return getattr(network, "is_recurrent", False)


def unroll(
    network: Any, observation: dict[str, Tensor], state: dict[str, Tensor] | None, is_first: Tensor
) -> tuple[Tensor, dict[str, Tensor] | None]:
    """Features [B, T, F] of sequences [B, T, ...], and the state after them; None where there is no memory."""
    if is_recurrent(network):
        return network.unroll(observation, state, is_first)
    merged = encode(network, {name: part.flatten(0, 1) for name, part in observation.items()})
    return merged.unflatten(0, is_first.shape), None
