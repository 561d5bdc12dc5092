"""The memory budget before a run, `capacity: auto`, and replay on disk by preset."""

import pytest
from rich.console import Console

from paddock.core.errors import InputError
from paddock.experiments.run import RunFolder
from paddock.orchestration import budget, sizes
from paddock.orchestration.budget import budget_of
from paddock.orchestration.build import build
from paddock.orchestration.launch import Request, resolve
from paddock.orchestration.sizes import Limit


@pytest.fixture
def machine(monkeypatch):
    """Pretend that the machine has so many bytes."""

    def pretend(size):
        for module in (sizes, budget):
            monkeypatch.setattr(module, "memory_limit", lambda: Limit(size, "this machine has"))

    return pretend


def test_budget_counts_every_part(machine):
    machine(24e9)
    config, _ = resolve(Request("sac_pendulum", overrides=["buffers.replay.capacity=1_000_000"]))
    found = budget_of(config)
    sizes_by_key = {need.key: need.size for need in found.needs}
    assert sizes_by_key["buffers.replay.capacity"] == config.buffers["replay"].memory(_spec(config), 1)
    assert sizes_by_key["activations of a batch"] > 256 * 256 * 4
    assert any(key.startswith("components.critics") for key in sizes_by_key)
    assert found.lines()[-1] == f"needs {sizes.amount(found.total)}; this machine has 24.0 GB"


def test_budget_is_smaller_with_pieces_and_learners(machine):
    machine(24e9)

    def activations(*overrides):
        config, _ = resolve(Request("sac_pendulum", overrides=list(overrides)))
        return budget_of(config).needs[-1].size

    assert activations("updates.accumulate=4") == activations() / 4
    assert activations("learners=2", "updates.accumulate=2") == activations() / 4


def test_budget_that_does_not_fit_names_a_capacity_that_does(machine, tmp_path):
    machine(1e9)
    config, _ = resolve(
        Request("sac_pendulum", overrides=["buffers.replay.capacity=100_000_000", f"runs_dir={tmp_path}"])
    )
    with pytest.raises(
        InputError, match=r"this machine has 1.0 GB. .*; buffers.replay.capacity=(\d|_)+ fits"
    ) as caught:
        build(config, RunFolder(tmp_path), Console(quiet=True))
    fits = str(caught.value).split("capacity=")[1].split(" fits")[0]
    smaller, _ = resolve(Request("sac_pendulum", overrides=[f"buffers.replay.capacity={fits}"]))
    assert 0.5e9 < budget_of(smaller).total < 1e9


def test_capacity_auto_becomes_a_number_that_fits(machine):
    machine(1e9)
    config, _ = resolve(
        Request(
            "sac_pendulum",
            overrides=["buffers.replay.capacity=auto", "training.total_steps=null", "training.max_seconds=1"],
        )
    )
    assert 0.5e9 < budget_of(config).total < 1e9
    config, _ = resolve(
        Request("sac_pendulum", overrides=["buffers.replay.capacity=auto", "training.total_steps=5_000"])
    )
    assert config.buffers["replay"].capacity == 5_000
    machine(1e5)
    with pytest.raises(InputError, match=r"buffers\.replay\.capacity: auto finds no room"):
        resolve(Request("sac_pendulum", overrides=["buffers.replay.capacity=auto"]))


@pytest.mark.parametrize(
    ("experiment", "preset"), [("sac_pendulum", "transitions_on_disk"), ("dreamer_cartpole", "replay_on_disk")]
)
def test_replay_on_disk_needs_no_memory_for_its_capacity(machine, experiment, preset):
    machine(24e9)
    plain, _ = resolve(Request(experiment, overrides=["buffers.replay.capacity=10_000_000"]))
    on_disk, _ = resolve(Request(experiment, preset=preset, overrides=["buffers.replay.capacity=10_000_000"]))
    needed = {len(found.needs): found.needs[1].size for found in (budget_of(on_disk),)}
    assert 100 * max(needed.values()) < budget_of(plain).needs[1].size


def _spec(config):
    return budget._spec_of(config)
