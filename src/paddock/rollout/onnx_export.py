"""A policy as one ONNX file that runs without this project: normalisation, memory and action scaling are inside.

Shapes: N copies of the environment, which is free in the file.
"""

from __future__ import annotations

import contextlib
import io
import json
import logging
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from paddock.core.errors import InputError
from paddock.core.files import replace_file
from paddock.core.lazy import require
from paddock.core.specs import ArraySpec
from paddock.rollout.actor import ActorModule

OBSERVATION, STATE, NEXT_STATE, ACTION = "observation.", "state.", "next_state.", "action"
TRIED_COPIES = 3  # for which the file is made and checked; one would be taken for a constant
TOLERANCE = 1e-4  # of actions, as a share of their range
EXTRA = "onnx"


class DeterministicPolicy(nn.Module):
    """The most likely action of an actor in the environment's range: observation parts and state in, action and next
    state out, all as tensors in the order of their names."""

    center: Tensor
    reach: Tensor

    def __init__(self, actor: ActorModule) -> None:
        super().__init__()
        self.actor = actor
        self.parts = list(actor.spec.only(actor.reads).observation)
        self.state_names = list(actor.initial_state(1) or {})
        action = actor.spec.action
        self.is_bounded = not action.is_discrete and action.low is not None and action.high is not None
        if self.is_bounded:
            low, high = (torch.from_numpy(np.array(bound)) for bound in action.bounds())
            self.register_buffer("center", (high + low) / 2)
            self.register_buffer("reach", (high - low) / 2)

    def forward(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        count = len(self.parts)
        seen = dict(zip(self.parts, tensors[:count], strict=True))
        state = dict(zip(self.state_names, tensors[count:], strict=True)) or None
        action, following = self.actor.act(seen, state, deterministic=True)
        if self.is_bounded:
            action = action.clamp(-1.0, 1.0) * self.reach + self.center
        return action, *((following or {})[name] for name in self.state_names)

    def example(self, copies: int, generator: torch.Generator | None = None) -> tuple[Tensor, ...]:
        """Random observations, and the state of fresh episodes."""
        spec = self.actor.spec.observation
        seen = [_random(spec[name], copies, generator) for name in self.parts]
        state = self.actor.initial_state(copies) or {}
        return *seen, *(state[name].clone() for name in self.state_names)

    @property
    def inputs(self) -> list[str]:
        return [*(OBSERVATION + name for name in self.parts), *(STATE + name for name in self.state_names)]

    @property
    def outputs(self) -> list[str]:
        return [ACTION, *(NEXT_STATE + name for name in self.state_names)]


def export_onnx(actor: ActorModule, file: Path) -> dict[str, Any]:
    """Write the file, and compare it with the policy where onnxruntime is installed; gives what it takes and gives."""
    onnx = require("onnx", extra=EXTRA, purpose="exporting a policy to ONNX")
    require("onnxscript", extra=EXTRA, purpose="exporting a policy to ONNX")
    policy = DeterministicPolicy(actor.cpu().eval())
    model = onnx.load_from_string(_exported(policy))
    _rename(model.graph, policy)
    spec = actor.spec.to_dict()
    properties = {"paddock": json.dumps({"spec": spec, "inputs": policy.inputs, "outputs": policy.outputs})}
    onnx.helper.set_model_props(model, properties)
    content = model.SerializeToString()
    difference = _difference(policy, content)
    file.parent.mkdir(parents=True, exist_ok=True)
    replace_file(file, content)
    found = {"file": str(file), "bytes": len(content), "inputs": policy.inputs, "outputs": policy.outputs}
    return {**found, "largest_difference": difference}


def _exported(policy: DeterministicPolicy) -> bytes:
    """The bytes of the model; whatever torch says on the way is left out."""
    copies = torch.export.Dim.DYNAMIC
    inputs = policy.example(TRIED_COPIES)
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with torch.no_grad(), warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            program = torch.onnx.export(
                policy,
                inputs,
                dynamo=True,
                dynamic_shapes=(tuple({0: copies} for _ in inputs),),
                verbose=False,
                optimize=True,
            )
            assert program is not None
            return program.model_proto.SerializeToString()
    except InputError:
        raise
    except Exception as error:  # Whatever cannot be traced raises its own kind.
        kind = type(policy.actor).__name__
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise InputError(f"a policy that acts by {kind} cannot be written as ONNX: {reason}") from error
    finally:
        logger.setLevel(level)


def _rename(graph: Any, policy: DeterministicPolicy) -> None:
    """Give inputs and outputs the names by which a person knows them."""
    names = dict(zip([one.name for one in graph.input], policy.inputs, strict=True))
    # An output that is an input as it was keeps the input's name; ONNX wants them apart.
    for number, (value, wanted) in enumerate(zip(graph.output, policy.outputs, strict=True)):
        if value.name in names:
            node = graph.node.add()
            node.op_type, node.name = "Identity", f"passed_{number}"
            node.input.append(value.name)
            node.output.append(wanted)
            value.name = wanted
        names[value.name] = wanted
    for value in (*graph.input, *graph.output):
        value.name = names[value.name]
    for node in graph.node:
        for side in (node.input, node.output):
            side[:] = [names.get(name, name) for name in side]


def _difference(policy: DeterministicPolicy, content: bytes) -> float | None:
    """The largest difference of actions and states over three steps of random observations, for one and for several
    copies; None where onnxruntime is not installed."""
    try:
        runtime = require("onnxruntime", extra=EXTRA, purpose="checking an ONNX file")
    except InputError:
        return None
    session = runtime.InferenceSession(content, providers=["CPUExecutionProvider"])
    generator, largest = torch.Generator().manual_seed(0), 0.0
    for copies in (1, TRIED_COPIES):
        given = policy.example(copies, generator)
        for _ in range(3):
            with torch.no_grad():
                expected = policy(*given)
            found = session.run(
                policy.outputs, {name: one.numpy() for name, one in zip(policy.inputs, given, strict=True)}
            )
            for name, here, there in zip(policy.outputs, expected, found, strict=True):
                difference = float(np.abs(here.double().numpy() - np.asarray(there, np.float64)).max(initial=0.0))
                if difference > TOLERANCE * max(float(here.double().abs().max()), 1.0):
                    raise InputError(f"the ONNX file gives another {name} than the policy: {difference:.2g} apart.")
                largest = max(largest, difference)
            given = *policy.example(copies, generator)[: len(policy.parts)], *expected[1:]
    return largest


def _random(part: ArraySpec, copies: int, generator: torch.Generator | None) -> Tensor:
    shape = (copies, *part.shape)
    if part.dtype == "uint8":
        return torch.randint(256, shape, generator=generator, dtype=torch.uint8)
    values = torch.randn(shape, generator=generator)
    return values.to(getattr(torch, part.dtype))
