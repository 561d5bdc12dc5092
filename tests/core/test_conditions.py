import pytest

from paddock.core.conditions import parse_condition
from paddock.core.errors import InputError


@pytest.mark.parametrize(
    ("text", "metrics", "holds"),
    [
        ("eval/return >= 900", {"eval/return": 900.0}, True),
        ("eval/return >= 900", {"eval/return": 899.9}, False),
        ("eval/return >= 900", {}, False),
        ("a > 1 and b < 2", {"a": 2, "b": 1}, True),
        ("a > 1 and b < 2", {"a": 2, "b": 3}, False),
        ("a > 1 and b < 2 or c == 3", {"a": 0, "b": 0, "c": 3}, True),
        ("loss<-1.5e-3", {"loss": -0.01}, True),
        ("steps >= 10_000", {"steps": 10_000}, True),
    ],
)
def test_conditions(text, metrics, holds):
    assert parse_condition(text).holds(metrics) is holds


@pytest.mark.parametrize("text", ["", "eval/return", "eval/return >= lots", ">= 3", "a > 1 and", "import os"])
def test_what_is_not_a_condition_is_refused_with_an_example(text):
    with pytest.raises(InputError, match="eval/return >= 900"):
        parse_condition(text)
