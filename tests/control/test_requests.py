"""Requests to a run whose environment does not come back."""

import threading
import time

import pytest

from paddock.control import requests as module
from paddock.control.requests import Control
from paddock.environments import calls
from paddock.environments.calls import EnvironmentFailure
from paddock.environments.gym import GymConfig, make


@pytest.fixture
def environment():
    env = make(GymConfig(_target_="it", id="CartPole-v1", num_envs=1), 1)
    yield env
    env.close()


@pytest.fixture
def impatient(monkeypatch):
    monkeypatch.setattr(module, "NOTICE", 0.3)
    monkeypatch.setattr(module, "PATIENCE", 0.8)
    monkeypatch.setattr(calls._watch, "longest", 0.0)


def test_a_stop_from_the_page_ends_a_run_whose_environment_hangs(environment, impatient, capfd):
    control = Control()
    page = threading.Timer(0.2, control.stop, ["the page"])
    page.start()
    began = time.monotonic()
    with control.listening(), pytest.raises(EnvironmentFailure, match="'CartPole-v1' did not come back from step"):
        calls.call(environment, "step", time.sleep, 60)
    page.join()
    assert time.monotonic() - began < 20
    assert control.stop_requested_by == "the page"
    assert "still waiting for environment 'CartPole-v1' to come back from step" in capfd.readouterr().err


def test_an_environment_that_was_ever_slow_is_waited_for_as_long_again(environment, impatient, monkeypatch):
    monkeypatch.setattr(calls._watch, "longest", 2.0)
    control = Control()
    with control.listening():
        control.stop("a person")
        assert calls.call(environment, "step", lambda: (time.sleep(1.5), "done")[1]) == "done"


def test_a_stop_while_nothing_is_waited_for_disturbs_nothing(environment, impatient):
    control = Control()
    with control.listening():
        control.stop("a person")
        time.sleep(1.5)
    assert calls.pending() is None
