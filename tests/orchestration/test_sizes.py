"""Sizes that cannot fit are refused before memory is taken, with the key that asks for them."""

import resource

import pytest
from rich.console import Console

from paddock.core.errors import InputError
from paddock.experiments.run import RunFolder
from paddock.orchestration import sizes
from paddock.orchestration.build import build
from paddock.orchestration.launch import Request, resolve
from paddock.orchestration.sizes import Limit, Need, allocated, memory_limit, refuse_what_cannot_fit

TOO_LARGE = {
    "buffers.replay.capacity = 100,000,000,000": ["sac_pendulum", "buffers.replay.capacity=100_000_000_000"],
    "buffers.replay.capacity = 1,500,000,000": ["dqn_cartpole", "buffers.replay.capacity=1_500_000_000"],
    "buffers.replay.capacity = 3,000,000,000": ["dreamer_cartpole", "buffers.replay.capacity=3_000_000_000"],
    "buffers.rollout.steps (workflow.rollout_steps) = 1,000,000,000":
        ["ppo_cartpole", "workflow.rollout_steps=1_000_000_000"],
    "components.policy.network.hidden = 200,000":
        ["ppo_cartpole", "components.policy.network.hidden=[200_000, 200_000]"],
    "components.critics.hidden = 200,000": ["sac_pendulum", "components.critics.hidden=[200_000, 200_000]"],
    "components.world_model.rssm.deter = 400,000": ["dreamer_cartpole", "components.world_model.rssm.deter=400_000"],
    "environment.num_envs = 10,000,000": ["ppo_cartpole", "environment.num_envs=10_000_000"],
    "environment.num_envs = 10,000,000 ": ["racing", "environment.num_envs=10_000_000"],
    "environment.num_envs = 100,000":
        ["ppo_cartpole", "environment.num_envs=100_000", "environment.vectorization=async"],
}  # fmt: skip


@pytest.mark.parametrize("key", TOO_LARGE)
def test_a_size_that_cannot_fit_is_refused_with_its_key_and_bytes(tmp_path, monkeypatch, key):
    """On a machine of 16 GB, whatever this one has."""
    monkeypatch.setattr(sizes, "memory_limit", lambda: Limit(16e9, "this machine has"))
    experiment, *overrides = TOO_LARGE[key]
    config, _ = resolve(Request(experiment, overrides=[*overrides, f"runs_dir={tmp_path}"]))
    with pytest.raises(InputError) as caught:
        build(config, RunFolder(tmp_path), Console(quiet=True))
    said = str(caught.value)
    assert said.startswith(f"{key.strip()} would take ")
    assert "this machine has 16.0 GB" in said
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < 4e6, "4 GB"


def test_a_size_that_cannot_fit_is_one_sentence_on_the_command_line_and_leaves_no_run(tmp_path, paddock):
    refused = paddock("train", "sac_pendulum", "buffers.replay.capacity=100_000_000_000")
    assert refused.returncode == 2
    assert "buffers.replay.capacity = 100,000,000,000 would take 3.1 TB of memory; this machine has" in refused.stderr
    assert "Traceback" not in refused.stderr
    assert not list(tmp_path.glob("runs/sac_pendulum*"))


def test_what_fits_alone_may_not_fit_together(monkeypatch):
    monkeypatch.setattr(sizes, "memory_limit", lambda: Limit(10e9, "this machine has"))
    refuse_what_cannot_fit([Need("a", 1, 6e9), Need("b", 2, 3e9)])
    with pytest.raises(InputError, match=r"a = 1 would take 6\.0 GB of memory, and everything else 5\.0 GB"):
        refuse_what_cannot_fit([Need("a", 1, 6e9), Need("b", 2, 5e9)])


def test_the_memory_limit_is_the_least_of_machine_control_group_and_ulimit(tmp_path, monkeypatch):
    plain = memory_limit()
    group = tmp_path / "memory.max"
    monkeypatch.setattr(sizes, "CONTROL_GROUP", (str(group),))
    group.write_text("max\n")
    assert memory_limit().size >= plain.size
    group.write_text("500000000\n")
    assert memory_limit() == Limit(500_000_000, "this process's control group allows")
    monkeypatch.setattr(resource, "getrlimit", lambda which: (1, 1))
    assert memory_limit() == Limit(0, "this process's limit (ulimit -v) leaves")


def test_memory_that_the_system_refuses_after_all_is_a_sentence():
    import numpy as np
    import torch

    with pytest.raises(InputError, match=r"buffers\.replay does not fit into memory: Unable to allocate"):
        allocated("buffers.replay", lambda: np.zeros(2**58, np.uint8))
    with pytest.raises(InputError, match=r"components\.policy does not fit into memory"):
        allocated("components.policy", lambda: torch.empty(2**58, dtype=torch.uint8))
    with pytest.raises(RuntimeError, match="something else"):
        allocated("components.policy", lambda: (_ for _ in ()).throw(RuntimeError("something else")))


@pytest.mark.parametrize("kind", ["uniform", "prioritized", "sequence", "rollout"])
def test_what_a_buffer_says_that_it_takes_is_about_what_it_takes(kind):
    import tracemalloc

    from paddock.buffers.prioritized import PrioritizedBuffer, PrioritizedConfig
    from paddock.buffers.rollout import RolloutBuffer, RolloutConfig
    from paddock.buffers.sequence import SequenceBuffer, SequenceConfig
    from paddock.buffers.uniform import UniformBuffer, UniformConfig
    from paddock.core.specs import ArraySpec, Spec

    spec = Spec(
        observation={"image": ArraySpec(shape=(8, 8, 3), dtype="uint8"),
                     "speed": ArraySpec(shape=(2,), dtype="float32")},
        action=ArraySpec(shape=(2,), dtype="float32", low=-1.0, high=1.0),
    )  # fmt: skip
    replay = {"_target_": "it", "capacity": 20_000, "batch_size": 8}
    kinds = {
        "uniform": (UniformBuffer, UniformConfig(**replay)),
        "prioritized": (PrioritizedBuffer, PrioritizedConfig(**replay)),
        "sequence": (SequenceBuffer, SequenceConfig(**replay, length=4)),
        "rollout": (RolloutBuffer, RolloutConfig(_target_="it", steps=20_000)),
    }
    owner, config = kinds[kind]
    tracemalloc.start()
    buffer = owner(config, spec, 4)
    taken = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert buffer is not None
    assert config.memory(spec, 4) == pytest.approx(taken, rel=0.05)
