"""The names of the state rows and the constants the kernels index with come from one list."""

from __future__ import annotations

import pytest

from paddock.sim import layout


@pytest.mark.parametrize("kind", ["DOUBLE", "SINGLE", "INTEGER", "FLAG"])
def test_layout_row_names_are_the_constants_in_order(kind: str) -> None:
    names = getattr(layout, f"{kind}_NAMES")
    assert [getattr(layout, name.upper()) for name in names] == list(range(getattr(layout, f"{kind}_ROWS")))


def test_layout_options_and_numbers_have_one_place_each() -> None:
    for prefix, count in (("OPTION_", layout.OPTION_COUNT), ("NUMBER_", layout.NUMBER_COUNT)):
        places = [value for name, value in vars(layout).items() if name.startswith(prefix) and name != f"{prefix}COUNT"]
        assert len(set(places)) == len(places)
        assert max(places) == count - 1
