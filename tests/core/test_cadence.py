import pytest

from paddock.core.cadence import Every, Ratio


@pytest.mark.parametrize("stride", [1, 3, 7, 100])
def test_every_fires_once_for_each_multiple_passed(stride):
    every = Every(10)
    fired = [counter for counter in range(0, 101, stride) if every(counter)]
    passed = [counter for counter in range(stride, 101, stride) if counter // 10 > (counter - stride) // 10]
    assert fired == passed


def test_every_goes_on_from_its_state():
    first, second = Every(10), Every(10)
    first(25)
    second.set_state(first.get_state())
    assert not second(29)
    assert second(30)


@pytest.mark.parametrize(("ratio", "expected"), [(0.1, 100), (0.3, 300), (1.0, 1000), (2.5, 2500), (1 / 3, 333)])
def test_ratio_keeps_fractions(ratio, expected):
    cadence, paid = Ratio(ratio), 0
    for _ in range(1000):
        cadence.add(1)
        while cadence.owed:
            cadence.pay()
            paid += 1
    assert paid == expected


def test_ratio_goes_on_from_its_state():
    first, second = Ratio(0.5), Ratio(0.5)
    first.add(3)
    first.pay()
    second.set_state(first.get_state())
    second.add(1)
    assert second.owed == 1
