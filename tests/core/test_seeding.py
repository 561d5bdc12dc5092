import random

import numpy as np
import torch

from paddock.core.seeding import derive_seed, get_random_state, seed_everything, set_random_state


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
