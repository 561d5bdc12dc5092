"""TMRL's `.tmod` files as policies of Paddock, and policies of Paddock as `.tmod` files.

A `.tmod` is a dictionary of weights and nothing else: no class, no spaces, no settings. What it is has to be seen from
the names and shapes of the weights.
"""

from __future__ import annotations

import io
import re
from collections import OrderedDict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from paddock.components.controllers.squashed_policy import SquashedPolicy
from paddock.components.controllers.tmrl_policy import (
    CHANNELS,
    CONVOLUTIONS,
    KERNELS,
    TmrlPolicy,
    TmrlPolicyConfig,
    input_size,
)
from paddock.components.networks.mlp import MLP
from paddock.components.normalizers import NormalizerConfig, ObservationNormalizer
from paddock.core.errors import InputError
from paddock.core.files import replace_file
from paddock.core.specs import Spec
from paddock.rollout.actor import ActorModule, PolicyActor, PolicyActorConfig
from paddock.tmrl.layouts import FULL_SPEED, IMAGES, LAST_ACTIONS, LIDAR, Layout, lidar_layout
from paddock.tmrl.torch_files import read_torch_file

SUFFIX = ".tmod"
POLICY, NORMALIZER = "policy", "observation_normalizer"
HEADS = [f"{layer}.{kind}" for layer in ("mu_layer", "log_std_layer") for kind in ("weight", "bias")]
Weights = dict[str, Tensor]


def read_policy(path: Path, told: Layout | None = None) -> tuple[PolicyActor, Layout]:
    """The policy of a `.tmod`, ready to act, and what it reads. told: what the config.json beside it says."""
    return policy_from_weights(checked_weights(read_torch_file(path), str(path)), str(path), told)


def checked_weights(value: Any, source: str) -> Weights:
    """A dictionary of finite tensors of floats by name, as single precision."""
    if not isinstance(value, dict) or not value or not all(isinstance(name, str) for name in value):
        raise InputError(f"'{source}' is not a dictionary of weights, which the .tmod of TMRL's own actors is.")
    if not all(isinstance(tensor, Tensor) and tensor.is_floating_point() for tensor in value.values()):
        raise InputError(f"'{source}' holds more than weights, so it is not of one of TMRL's own actors.")
    weights = {name: tensor.detach().float().clone() for name, tensor in value.items()}
    if bad := [name for name, tensor in weights.items() if not torch.isfinite(tensor).all()]:
        raise InputError(f"'{source}' has NaN or Inf in '{bad[0]}'.")
    return weights


def policy_from_weights(weights: Weights, source: str, told: Layout | None = None) -> tuple[PolicyActor, Layout]:
    """The actor of these weights, and what it reads."""
    layout, hidden = _recognised(weights, source, told)
    spec = layout.spec()
    policy = TmrlPolicy(policy_config(layout, hidden), spec)
    try:
        policy.load_state_dict(weights)
    except RuntimeError as error:
        reason = " ".join(str(error).split("\n\t")[-1].split())
        raise InputError(f"'{source}' does not fit TMRL's {layout.interface} actor: {reason}") from error
    return make_actor(policy, spec), layout


def policy_config(layout: Layout, hidden: list[int]) -> TmrlPolicyConfig:
    """The component that holds such weights."""
    return TmrlPolicyConfig(
        _target_="paddock.components.controllers.tmrl_policy.TmrlPolicy",
        parts=layout.parts,
        scales=layout.scales,
        hidden=hidden,
    )


def make_actor(policy: nn.Module, spec: Spec, **more: nn.Module) -> PolicyActor:
    """An actor around a policy that normalises nothing, with further components to be saved with it."""
    normalizer = ObservationNormalizer(
        NormalizerConfig(_target_="paddock.components.normalizers.ObservationNormalizer", enabled=False), spec
    )
    config = PolicyActorConfig(
        _target_="paddock.rollout.actor.PolicyActor", policy=POLICY, normalizer=NORMALIZER, saved_with=list(more)
    )
    actor = PolicyActor(config, {POLICY: policy, NORMALIZER: normalizer, **more}, spec)
    actor.eval()
    return actor


def _recognised(weights: Weights, source: str, told: Layout | None) -> tuple[Layout, list[int]]:
    """What the weights read, and the sizes of their perceptron."""
    has_images = f"net.{CONVOLUTIONS[0]}.weight" in weights
    stem = "net.mlp" if has_images else "net"
    hidden, number = [], 0
    while (layer := weights.get(f"{stem}.{number}.weight")) is not None and layer.dim() == 2:
        hidden.append(layer.shape[0])
        number += 2
    expected = {f"{stem}.{2 * index}.{kind}" for index in range(len(hidden)) for kind in ("weight", "bias")} | {*HEADS}
    expected |= {f"net.{name}.{kind}" for name in CONVOLUTIONS for kind in ("weight", "bias")} if has_images else set()
    heads = weights.get(HEADS[0])
    if set(weights) != expected or not hidden or heads is None or heads.dim() != 2:
        strange = sorted(set(weights) ^ expected)
        raise InputError(
            f"'{source}' is not of one of TMRL's two published actors (a perceptron over lidars, or four convolutions "
            f"over grey pictures): '{strange[0] if strange else HEADS[0]}' does not fit. docs/tmrl.md says how "
            "an actor class of your own runs with its weights."
        )
    inputs, action_size = weights[f"{stem}.0.weight"].shape[1], heads.shape[0]
    if not has_images:
        return lidar_layout(inputs, action_size, told), hidden
    return _image_layout(weights, inputs, action_size, source, told), hidden


def _image_layout(weights: Weights, inputs: int, action_size: int, source: str, told: Layout | None) -> Layout:
    first = weights[f"net.{CONVOLUTIONS[0]}.weight"]
    if first.dim() != 4 or first.shape[0] != CHANNELS[0] or first.shape[2] != KERNELS[0]:
        raise InputError(f"'{source}' has other convolutions than TMRL's actor.")
    image = told.image if told is not None and told.has_images else (64, 64)
    lengths = [told.last_actions] if told is not None else [2, 1, 0, 3, 4]
    for length in lengths:
        layout = Layout("full", first.shape[1], length, image, action_size)
        if input_size(layout.spec().observation[IMAGES].shape, layout.numbers) == inputs:
            return layout
    raise InputError(
        f"'{source}' reads {inputs} numbers behind its convolutions, which pictures of {image[1]} x {image[0]} and "
        f"{lengths[0]} last actions do not give; import it together with its config.json."
    )


def write_policy(actor: ActorModule, path: Path) -> None:
    """Write a policy as a `.tmod` that TMRL's actor of the same shape loads."""
    stream = io.BytesIO()
    torch.save(OrderedDict(exported_weights(actor)), stream)
    replace_file(path, stream.getvalue())


def exported_weights(actor: ActorModule) -> Weights:
    """The weights by TMRL's names, in TMRL's order of inputs."""
    policy, speed = dict(actor.parts).get(POLICY), actor.spec.observation.get("speed")
    if speed is None or speed.high != FULL_SPEED:
        raise InputError(
            "this policy does not read TMRL's numbers, so TMRL cannot act with it. Train with environment.numbers=tmrl."
        )
    if isinstance(actor, PolicyActor) and not _is_normalised(actor):
        if isinstance(policy, TmrlPolicy):
            return {name: value.detach().cpu().clone() for name, value in policy.state_dict().items()}
        if isinstance(policy, SquashedPolicy) and _is_plain(policy.network):
            return _converted(policy, actor.spec)
    raise InputError(
        "this policy has another shape than TMRL's actors, so there is no .tmod for it. What can be exported: a policy "
        "of components.policy._target_ = paddock.components.controllers.tmrl_policy.TmrlPolicy, or SAC's policy over "
        "lidars with an MLP of ReLU, without layer_norm and without a normaliser."
    )


def _is_normalised(actor: PolicyActor) -> bool:
    config = actor.config
    assert isinstance(config, PolicyActorConfig)
    return getattr(getattr(actor.parts[config.normalizer], "config", None), "enabled", True)


def _is_plain(network: Any) -> bool:
    is_mlp = type(network) is MLP
    return is_mlp and network.config.activation == "relu" and not network.config.layer_norm


def _converted(policy: SquashedPolicy, spec: Spec) -> Weights:
    """A perceptron that reads parts by the alphabet, as one that reads them in TMRL's order."""
    order = [name for name in ("speed", "progress", LIDAR, LAST_ACTIONS) if name in spec.observation]
    if set(order) != set(spec.observation) or LIDAR not in order:
        raise InputError(
            f"TMRL's perceptron reads speed, progress, {LIDAR} and {LAST_ACTIONS}; this policy reads "
            f"{', '.join(spec.observation)}."
        )
    state = {name: value.detach().cpu() for name, value in policy.state_dict().items()}
    weights: Weights = {}
    for name, value in state.items():
        if match := re.fullmatch(r"network\.layers\.(\d+)\.(weight|bias)", name):
            weights[f"net.{match[1]}.{match[2]}"] = value.clone()
    columns = column_order({name: part.size for name, part in spec.observation.items()}, order)
    weights["net.0.weight"] = weights["net.0.weight"][:, columns].contiguous()
    for kind in ("weight", "bias"):
        mean, log_std = state[f"head.{kind}"].chunk(2, 0)
        weights[f"mu_layer.{kind}"], weights[f"log_std_layer.{kind}"] = mean.clone(), log_std.clone()
    return weights


def column_order(sizes: Mapping[str, int], order: list[str]) -> list[int]:
    """Where each input of a network that reads parts in `order` lies in the vector that has them by the alphabet."""
    starts, begin = {}, 0
    for name in sorted(sizes):
        starts[name] = begin
        begin += sizes[name]
    return [starts[name] + index for name in order for index in range(sizes[name])]
