"""An actor of some rows gives each the action that the whole batch gives it."""

import pytest
import torch

from paddock.components.actions import Categorical, Gaussian, SquashedGaussian
from paddock.core.errors import InputError
from paddock.rollout.rows import RowDraws


@pytest.mark.parametrize("first", [0, 3])
def test_row_draws_are_the_rows_of_the_whole_draw(first):
    count, total = 2, 5
    mean = torch.linspace(-1, 1, total * 3).view(total, 3)
    kinds = (
        lambda rows: Gaussian(rows, torch.zeros(3)).sample(),
        lambda rows: SquashedGaussian(rows, torch.zeros(3)).sample(),
        lambda rows: Categorical(rows).sample(),
        lambda rows: torch.rand(len(rows), 2),
        lambda rows: torch.randint(9, (len(rows),)),
        lambda rows: torch.randn(size=(len(rows), 1)),
    )
    for kind in kinds:
        torch.manual_seed(1)
        whole, after = kind(mean), torch.get_rng_state()
        torch.manual_seed(1)
        with RowDraws(torch.arange(first, first + count), total):
            some = kind(mean[first : first + count])
        assert torch.equal(some, whole[first : first + count])
        assert torch.equal(torch.get_rng_state(), after), "all rows' numbers are drawn"


def test_row_draws_refuse_what_is_not_by_rows():
    with RowDraws(torch.arange(2), 4):
        for draw in (lambda: torch.randn(3), lambda: torch.randperm(2), lambda: torch.multinomial(torch.ones(2, 2), 1)):
            with pytest.raises(InputError, match="one row for each environment"):
                draw()
