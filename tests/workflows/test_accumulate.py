"""`updates.accumulate`: a batch in pieces gives the gradient of the whole."""

import pytest
import torch

from learner_cases import CASES, collected, largest_difference, losses_of
from paddock.core.errors import InputError, PaddockError
from paddock.workflows.dreamer import Dreamer
from paddock.workflows.sac import SAC

MORE = {
    "dreamer v1": ("dreamer", ["workflow=dreamer_v1"]),  # gradients through the dynamics, free nats of the mean
    "dreamer chosen": ("dreamer", ["workflow.imagination_starts=7", "workflow.replay_value_coef=0"]),
    "ppo recurrent": ("ppo", [f"+network@components.{part}.network=lstm" for part in ("policy", "value")]),
}


@pytest.mark.parametrize("name", [*CASES, *MORE])
def test_accumulate_does_not_change_the_losses(prepared, name):
    case, more = MORE.get(name, (name, []))
    whole = losses_of(*collected(prepared, case, *more, run="whole"), updates=20)
    pieces = losses_of(*collected(prepared, case, *more, "updates.accumulate=3", run="pieces"), updates=20)
    assert largest_difference(pieces, whole) < 1e-5


@pytest.mark.parametrize("case", ["sac", "dreamer"])
def test_out_of_memory_halves_the_pieces_and_does_not_change_the_losses(prepared, case, caplog, monkeypatch):
    expected = losses_of(*collected(prepared, case, run="whole"), updates=4)
    _forget_above(monkeypatch, rows=2 if case == "dreamer" else 9)
    run, phase = collected(prepared, case, run="small")
    assert largest_difference(losses_of(run, phase, updates=4), expected) < 1e-5
    assert run.context.learners.accumulate == 4
    assert "ran out of memory; from here on a batch is worked on in 4 pieces (updates.accumulate)" in caplog.text


def test_out_of_memory_with_a_single_row_ends_the_run(prepared, monkeypatch):
    _forget_above(monkeypatch, rows=0)
    run, phase = collected(prepared, "sac")
    with pytest.raises(PaddockError, match="a single row of a batch does not fit into memory: no more"):
        losses_of(run, phase, updates=1)


def test_accumulate_is_refused_where_updates_are_not_shared(prepared):
    with pytest.raises(InputError, match=r"updates.accumulate = 2 cannot be used with DQN"):
        prepared("dqn_cartpole", "updates.accumulate=2")


def _forget_above(monkeypatch, rows):
    """As on a GPU of little memory: let every backward pass of a batch fail that has more rows than these."""
    monkeypatch.setattr("paddock.components.learners.gpu_may_run_out", lambda: True)
    for owner, name in ((SAC, "_critic_gradients"), (SAC, "_policy_gradients"), (Dreamer, "_controller_gradients")):
        monkeypatch.setattr(owner, name, _limited(getattr(owner, name), rows))


def _limited(function, rows):
    def limited(self, *trees):
        first = trees[0]
        while isinstance(first, dict):
            first = next(iter(first.values()))
        result = function(self, *trees)
        if first.shape[1 if first.dim() > 2 else 0] > rows:
            raise torch.OutOfMemoryError("no more")
        return result

    return limited
