"""Threads that share pieces: each piece once, in order, whichever thread takes it."""

import threading
import time

import pytest
import torch

from paddock.components.workers import Workers


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("count", [1, 2, 5])
def test_workers_give_results_in_order_and_compute_each_piece_once(threads, count):
    before, computed = torch.get_num_threads(), []
    torch.set_num_threads(threads)
    try:
        workers = Workers(count)
        for _ in range(20):
            computed.clear()
            found = workers.map(lambda piece: computed.append(piece) or piece**2, range(7))
            assert found == [piece**2 for piece in range(7)]
            assert sorted(computed) == list(range(7))
    finally:
        torch.set_num_threads(before)


def test_workers_help_each_other_and_raise_what_a_piece_raises():
    workers, seen = Workers(2), set()

    def slow(piece):
        seen.add(threading.get_ident())
        time.sleep(0.05)
        if piece == 3:
            raise ValueError("piece 3")
        return piece

    workers.map(slow, [0, 1, 2, 4])
    assert len(seen) == 2
    for pieces in ([3, 0, 1], [0, 1, 3]):
        with pytest.raises(ValueError, match="piece 3"):
            workers.map(slow, pieces)
