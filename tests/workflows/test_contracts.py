"""The contracts of docs/architecture.md: what fulfils a Protocol has its methods, with arguments of the same names."""

import inspect

import pytest

from paddock.buffers.action_chunks import ActionChunkBuffer
from paddock.buffers.buffer import Buffer
from paddock.buffers.demonstrations import DemonstrationsBuffer
from paddock.buffers.disk import DiskBuffer
from paddock.buffers.latents import LatentBuffer
from paddock.buffers.offline import OfflineBuffer
from paddock.buffers.prioritized import PrioritizedBuffer
from paddock.buffers.prioritized_sequence import PrioritizedSequenceBuffer
from paddock.buffers.rollout import RolloutBuffer
from paddock.buffers.sequence import SequenceBuffer
from paddock.buffers.tmrl_memory import TmrlMemory
from paddock.buffers.uniform import UniformBuffer
from paddock.components.dynamics import protocol, world_model
from paddock.components.dynamics.latent_dynamics import LatentModel
from paddock.components.dynamics.mdn_world_model import MDNWorldModel
from paddock.components.dynamics.told import TOLD
from paddock.components.optimizers.adam import Adam, LaProp
from paddock.components.optimizers.optimizer import Optimizer
from paddock.evaluation.evaluator import Evaluator, evaluate
from paddock.racing.laps.evaluator import LapEvaluator
from paddock.rollout.collector import Collector
from paddock.rollout.experience import Experience, TransitionSink, WholeEpisodes

SEQUENCES = [SequenceBuffer, PrioritizedSequenceBuffer, DiskBuffer, OfflineBuffer]
BUFFERS = [
    RolloutBuffer,
    UniformBuffer,
    PrioritizedBuffer,
    *SEQUENCES,
    LatentBuffer,
    DemonstrationsBuffer,
    ActionChunkBuffer,
    TmrlMemory,
]
PAIRS = [
    (Experience, Collector),
    *((contract, buffer) for contract in (Buffer, TransitionSink) for buffer in BUFFERS),
    (Optimizer, Adam),
    (Optimizer, LaProp),
    (protocol.WorldModel, world_model.WorldModel),
    (protocol.WorldModel, LatentModel),
    (protocol.WorldModel, MDNWorldModel),
    (WholeEpisodes, Collector),
    (protocol.WorldModel, TOLD),
    (Evaluator, LapEvaluator),
]


def methods_of(contract):
    names = [name for one in contract.__mro__ if getattr(one, "_is_protocol", False) for name in vars(one)]
    own = {name: getattr(contract, name) for name in names if name == "__call__" or not name.startswith("_")}
    return {name: value for name, value in own.items() if inspect.isfunction(value) or isinstance(value, property)}


@pytest.mark.parametrize(("contract", "kind"), PAIRS, ids=lambda one: one.__name__)
def test_contract_is_fulfilled_method_by_method(contract, kind):
    assert methods_of(contract)
    for name, wanted in methods_of(contract).items():
        if isinstance(wanted, property):
            continue  # An attribute that __init__ sets will do, which a class does not show.
        ours = inspect.signature(getattr(kind, name)).parameters
        for parameter in inspect.signature(wanted).parameters.values():
            assert parameter.name in ours, f"{kind.__name__}.{name} has no {parameter.name}"
            assert ours[parameter.name].kind == parameter.kind
        extra = [one for key, one in ours.items() if key not in inspect.signature(wanted).parameters]
        assert all(one.default is not inspect.Parameter.empty for one in extra), f"{kind.__name__}.{name} asks for more"


def test_evaluator_contract_holds_for_the_plain_function():
    wanted = [*inspect.signature(Evaluator.__call__).parameters][1:]
    assert [*inspect.signature(evaluate).parameters] == wanted


def test_experience_has_every_attribute_of_its_contract(prepared):
    experience = prepared("ppo_cartpole").context.experience
    for name in [*methods_of(Experience), *inspect.get_annotations(Experience)]:
        assert hasattr(experience, name), name
    experience.close()
