"""Every workflow collects, learns and acts on a device that is not the processor's: nothing is mixed, nothing is read
as NumPy without having been brought back. And every update runs in bfloat16."""

import math

import pytest
import torch

import tiny_tasks  # noqa: F401 - registers the task
from learner_cases import CASES, SMALL_DREAMER, updated
from paddock.components.devices import choose_device, to_device
from paddock.core.errors import InputError
from pretended_device import pretended_device

SMALL_CRITICS = ["components.policy.network.hidden=[8]", "components.critics.hidden=[8]", "buffers.replay.batch_size=8"]
SMALL_PLANNER = ["controllers.available.mppi.proposals=2"]
SMALL_PLANNER += [f"controllers.available.mppi.planner.{key}" for key in ("candidates=8", "elites=4", "iterations=2")]
WORKFLOWS = {
    "ppo": (*CASES["ppo"][::2], []),
    "ppo recurrent": (
        "ppo_cartpole",
        [*CASES["ppo"][2], *(f"+network@components.{part}.network=lstm" for part in ("policy", "value"))],
        [],
    ),
    "sac": ("sac_pendulum", SMALL_CRITICS, []),
    "redq": ("redq_pendulum", SMALL_CRITICS, ["update_critics", "update_policy"]),
    "dqn": ("dqn_cartpole", ["buffers.replay.batch_size=8"], []),
    "iqn": ("dqn_cartpole", ["workflow=iqn", "buffers.replay.batch_size=8"], []),
    "dreamer": ("dreamer_cartpole", SMALL_DREAMER, ["update_world_model", "update_controller"]),
    "dreamer v1": ("dreamer_cartpole", [*SMALL_DREAMER, "workflow=dreamer_v1"], []),
    "tdmpc2": ("tdmpc2_pendulum", ["buffers.replay.batch_size=8", *SMALL_PLANNER], []),
}


def learner(make, name, *overrides):
    """A run that has collected, its phase and the updates to try."""
    experiment, small, hooks = WORKFLOWS[name]
    run = make(experiment, *small, *overrides)
    phase = next(one for one in run.config.training.phases.values() if "update" in str(list(one.workflow_hooks)))
    if "random" in run.config.controllers.available:
        run.context.controllers.select("random")
    run.workflow.collect_step(200, phase=phase)
    run.context.controllers.select(None)
    return run, phase, hooks or ["update"]


@pytest.mark.parametrize("name", WORKFLOWS)
def test_device_is_kept_by_every_workflow(prepared, name):
    with pretended_device() as device:
        run, phase, hooks = learner(
            prepared, name, f"device={device}", "+workflow.workers=1" if "ppo" in name else "tags=[]"
        )
        parameters = [one for part in run.context.components.values() for one in part.parameters()]
        assert all(one.device.type == device for one in parameters)
        before = [one.detach().clone() for one in parameters]
        for hook in hooks:
            metrics = updated(run, hook, run.context.buffers[phase.buffer].sample(), phase)
            assert all(math.isfinite(float(value)) for value in metrics.values())
        assert any((one != old).any().item() for one, old in zip(parameters, before, strict=True))
        run.workflow.collect_step(2, phase=phase)


def test_device_that_is_mixed_with_the_processor_is_noticed():
    with pretended_device() as device:
        there, here = torch.ones(3, device=device), torch.ones(3)
        with pytest.raises(RuntimeError, match="same device"):
            there + here
        with pytest.raises(RuntimeError, match="same device"):
            torch.nn.Linear(3, 2)(there)
        with pytest.raises(TypeError, match="numpy"):
            there.numpy()
        assert (there + here.to(device)).cpu().numpy().tolist() == [2, 2, 2]


def test_device_names():
    assert choose_device("cpu").type == "cpu"
    assert choose_device("auto").type in ("cpu", "cuda", "mps")
    with pytest.raises(InputError, match=r"device 'cuda:77' cannot be used: .* Choose device=auto, cpu, cuda"):
        choose_device("cuda:77")
    with pytest.raises(InputError, match="device 'gpu' cannot be used"):
        choose_device("gpu")


def test_to_device_pins_what_goes_to_a_gpu(monkeypatch):
    """Without one here: that the transfer is asked for as it has to be."""
    asked = []
    monkeypatch.setattr(torch.Tensor, "pin_memory", lambda tensor: asked.append("pinned") or tensor)
    monkeypatch.setattr(torch.Tensor, "to", lambda tensor, device, **how: asked.append((device.type, how)) or tensor)
    to_device({"a": {"b": torch.ones(2)}}, torch.device("cuda:0"))
    assert asked == ["pinned", ("cuda", {"non_blocking": True})]


@pytest.mark.parametrize("name", ["ppo", "sac", "dreamer"])
def test_precision_bfloat16_learns_and_keeps_single_precision_parameters(prepared, name):
    found = {}
    for precision in ("float32", "bfloat16"):
        # One gradient step, as the other updates are: what follows many of them is not compared.
        single = ["workflow.epochs=1", "workflow.minibatch_size=200"] if name == "ppo" else []
        chosen = [f"precision={precision}", *single]
        run, phase, _ = learner(lambda *given, p=precision: prepared(*given, run=p), name, *chosen)
        torch.manual_seed(0)
        metrics = updated(run, "update", run.context.buffers[phase.buffer].sample(), phase)
        found[precision] = {key: float(value) for key, value in metrics.items()}
        parameters = [one for part in run.context.components.values() for one in part.parameters()]
        assert all(one.dtype == torch.float32 for one in parameters)
    assert found["float32"] != found["bfloat16"]
    key = {"ppo": "train/value_loss", "sac": "train/critic_loss", "dreamer": "train/model_loss"}[name]
    assert found["bfloat16"][key] == pytest.approx(found["float32"][key], rel=0.05)
