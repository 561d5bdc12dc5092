"""A shared policy folder is data: to evaluate, race or drive against it runs none of the code that it names."""

import json
import shutil

import pytest
from strangers import tampered_policy, trap

from paddock.core.permission import UntrustedError
from paddock.orchestration.subject import find_subject
from paddock.racing.drive.setup import DriveRequest, find_policy, make_session
from paddock.racing.race.race import run_race
from paddock.rollout.actor import load_policy


def reward(values):
    values["environment"]["reward"]["custom"] = {"x": {"function": "fast_car/notes.py:f", "weight": 0.0}}


def opponents(values):
    values["environment"]["opponents"] = {"count": 1, "driver": "fast_car/notes.py:drive"}


def target(values):
    values["parts"]["policy"]["_target_"] = "fast_car.notes.f"


def environment_target(values):
    values["environment"]["_target_"] = "fast_car.notes.f"


def module(values):
    values["environment"] = {"_target_": "paddock.environments.gym.make", "id": "fast_car.notes:X-v1", "num_envs": 1}


def environment_as_a_part(values):
    values["parts"]["policy"] = {"_target_": "paddock.environments.gym.make", "id": "fast_car.notes:X", "num_envs": 1}


@pytest.fixture
def attack(person, strangers_racing_policy):
    """Make the policy folder `fast_car` with one change, and a file beside it that must not run; the marker."""

    def make(change):
        tampered_policy(strangers_racing_policy, person / "fast_car", change)
        return trap(person / "fast_car")

    return make


def test_policy_with_a_reward_function_is_evaluated_without_it(attack, paddock, person):
    marker = attack(reward)
    shutil.move(person / "fast_car", person.parent / "fast_car")  # where the command line's fixture works
    done = paddock("evaluate", "fast_car", "--episodes", "1")
    assert done.returncode == 0, done.stderr
    assert "The reward functions of files (x) are left out, so there is no return." in done.stdout
    assert not marker.exists()
    assert not (person.parent / "fast_car" / "MARKER").exists()


def test_policy_with_a_driver_of_opponents_is_refused_and_named(attack, paddock, person):
    attack(opponents)
    shutil.move(person / "fast_car", person.parent / "fast_car")
    for command in (["evaluate", "fast_car", "--episodes", "1"], ["race", "fast_car", "--starts", "1"]):
        done = paddock(*command)
        assert done.returncode == 2
        assert "environment.opponents.driver runs the Python file 'fast_car/notes.py:drive'" in done.stderr
        assert "--trust" in done.stderr
        assert "Traceback" not in done.stderr
    assert not (person.parent / "fast_car" / "MARKER").exists()


@pytest.mark.parametrize("change", [opponents, target, environment_target, module, environment_as_a_part])
def test_policy_that_names_code_is_refused(attack, person, change):
    marker = attack(change)
    with pytest.raises(UntrustedError, match="--trust"):
        find_subject("fast_car", person)
    with pytest.raises(UntrustedError, match="--trust"):
        run_race(["fast_car"], person, starts=1)
    assert not marker.exists()


@pytest.mark.parametrize("change", [target, environment_as_a_part])
def test_policy_that_is_loaded_from_python_runs_nothing(attack, person, change):
    marker = attack(change)
    with pytest.raises(UntrustedError):
        load_policy("fast_car")
    assert not marker.exists()


def test_policy_of_a_plugin_needs_the_plugin_or_trust(attack, person, monkeypatch):
    (person / "lab.py").write_text("raise SystemExit('ran')\n")
    monkeypatch.syspath_prepend(person)
    attack(lambda values: values["parts"]["policy"].update(_target_="lab.Wide"))
    with pytest.raises(UntrustedError, match=r"imports the package of 'lab\.Wide'"):
        find_subject("fast_car", person)


def test_drive_against_a_policy_runs_nothing_of_it(attack, person):
    def both(values):
        reward(values)
        opponents(values)

    marker = attack(both)
    grid = make_session(DriveRequest(against="fast_car", runs_dir=person))
    grid.env.close()
    assert find_policy("fast_car", person).name == "fast_car"
    assert not marker.exists()
    shutil.rmtree(person / "fast_car")
    marker = attack(target)
    with pytest.raises(UntrustedError):
        make_session(DriveRequest(against="fast_car", runs_dir=person))
    assert not marker.exists()


def test_policy_is_trusted_for_its_content(attack, person):
    marker = attack(opponents)
    find_subject("fast_car", person, trusts=True)
    found = find_subject("fast_car", person)
    found.make_env(1, None).close()
    assert marker.exists()
    (person / "fast_car" / "notes.py").write_text("def drive(seen):\n    return 1\n")
    with pytest.raises(UntrustedError):
        find_subject("fast_car", person)
    description = json.loads((person / "fast_car" / "policy.json").read_text())
    assert description["environment"]["opponents"]["driver"] == "fast_car/notes.py:drive"
