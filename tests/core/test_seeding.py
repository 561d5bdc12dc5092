import random

import numpy as np
import pytest
import torch

from paddock.core import seeding
from paddock.core.seeding import derive_seed, forked_random, get_random_state, seed_everything, set_random_state


def test_seeds_differ_by_name_and_are_the_same_everywhere():
    assert derive_seed(1, "environment") == 546026049
    names = [derive_seed(seed, name) for seed in range(10) for name in ("a", "b", "c")]
    assert len(set(names)) == len(names)


def test_the_state_of_all_generators_can_be_put_back():
    def draw():
        return random.random(), np.random.random(), float(torch.rand(())), random.gauss(0, 1)  # noqa: NPY002

    seed_everything(3)
    draw()
    state = get_random_state()
    first = draw()
    set_random_state(state)
    assert draw() == first


class Accelerator:
    """Two devices of a kind that is not here, each with a generator that is one number."""

    def __init__(self):
        self.states = [11, 22]

    def is_available(self):
        return True

    def _is_in_bad_fork(self):
        return False

    def manual_seed_all(self, seed):
        self.states = [seed, seed]

    def get_rng_state_all(self):
        return list(self.states)

    def set_rng_state_all(self, states):
        self.states = list(states)


@pytest.mark.parametrize("kind", ["cuda", "xpu"])
def test_evaluation_puts_back_the_generators_of_every_device(monkeypatch, kind):
    """`torch.manual_seed` seeds all devices; what training draws from afterwards must not have moved."""
    device = Accelerator()
    monkeypatch.setattr(torch, kind, device)
    seed_everything(3)
    device.states = [11, 22]
    state = get_random_state()
    assert state[kind] == [11, 22]
    with forked_random(7):
        assert device.states == [7, 7]
        inside = float(torch.rand(())), random.random(), float(np.random.random())  # noqa: NPY002
    assert device.states == [11, 22]
    assert get_random_state()["torch"].equal(state["torch"])
    with forked_random(7):
        assert float(torch.rand(())) == inside[0]


def test_generators_are_put_back_after_an_error_as_well():
    seed_everything(3)
    state = get_random_state()
    with pytest.raises(ZeroDivisionError), forked_random(7):
        torch.rand(()) / (1 // 0)
    assert get_random_state()["torch"].equal(state["torch"])


def test_seeding_asks_for_the_devices_that_are_here():
    assert set(seeding._accelerators()) == {name for name in ("cuda", "xpu") if getattr(torch, name).is_available()} | (
        {"mps"} if torch.backends.mps.is_available() else set()
    )
