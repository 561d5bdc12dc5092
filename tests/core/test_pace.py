"""Pacing on a clock that only moves when something sleeps or works."""

import pytest

from paddock.core.pace import LATE, Pacer, RateLimit


class ManualClock:
    """Seconds that pass by sleeping, or by `work`."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now

    def work(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def clock():
    return ManualClock()


def test_pacer_holds_steps_to_their_period(clock):
    pacer = Pacer(clock, clock.work)
    ends = []
    for work in (0.01, 0.0, 0.04, 0.01):
        clock.work(work)
        pacer.wait(0.05)
        ends.append(clock.now - 100.0)
    assert ends == pytest.approx([0.05, 0.10, 0.15, 0.20])


def test_pacer_catches_up_with_a_small_delay_and_not_with_a_large_one(clock):
    pacer = Pacer(clock, clock.work)
    clock.work(0.12)
    pacer.wait(0.05)  # 0.07 s late: no sleep, and the next steps make up for it
    assert clock.now == pytest.approx(100.12)
    pacer.wait(0.05)
    assert clock.now == pytest.approx(100.12)
    pacer.wait(0.05)
    assert clock.now == pytest.approx(100.15)
    clock.work(LATE + 0.1)
    pacer.wait(0.05)
    late = clock.now
    pacer.wait(0.05)
    assert clock.now == pytest.approx(late + 0.05), "a new schedule begins where the delay ended"


def test_pacer_is_interrupted_and_restarted(clock):
    pacer = Pacer(clock, clock.work)
    pacer.wait(60.0, lambda: clock.now > 100.2)
    assert clock.now < 100.3
    clock.work(500.0)
    pacer.restart()
    restarted = clock.now
    pacer.wait(0.05)
    assert clock.now == pytest.approx(restarted + 0.05)


@pytest.mark.parametrize("rate", [10.0, 50.0])
def test_rate_limit_keeps_its_rate_where_calls_come_late(clock, rate):
    limit, taken = RateLimit(clock), 0
    while clock.now < 110.0:
        clock.work(0.007)
        if limit.wait <= 0.0:
            limit.took(rate)
            taken += 1
    assert taken == pytest.approx(10.0 * rate, rel=0.05)


def test_rate_limit_sends_no_burst_after_a_silence(clock):
    limit = RateLimit(clock)
    clock.work(10.0)
    limit.took(20.0)
    assert limit.wait == pytest.approx(0.025)
