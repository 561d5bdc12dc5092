import pytest
from pydantic import ValidationError

from paddock.core.errors import InputError
from paddock.orchestration.phase_scheduler import PhaseConfig, PhaseScheduler


def phase(*hooks, **values):
    return PhaseConfig(**{"name": "p", "buffer": "b", "workflow_hooks": list(hooks), **values})


def walk(scheduler, count=10_000, updates=1):
    """Perform what the scheduler asks for; gives the names of the actions."""
    names = []
    while len(names) < count and (action := scheduler.next_action()) is not None:
        names.append(action.hook)
        if action.hook == "collect":
            scheduler.advance(action, steps=action.steps)
        elif action.hook == "evaluate":
            scheduler.advance(action)
        else:
            scheduler.advance(action, updates=updates)
    return names


def test_hooks_run_in_order_once_a_cycle():
    scheduler = PhaseScheduler([phase({"collect": {"steps": 4}}, "update", duration_cycles=3)], {})
    assert walk(scheduler) == ["collect", "update"] * 3


def test_a_ratio_owes_updates_per_step_and_keeps_fractions():
    hooks = [{"collect": {"steps": 3}}, {"update": {"ratio": 0.5}}]
    names = walk(PhaseScheduler([phase(*hooks, duration_steps=12)], {}))
    assert names == ["collect", "update", "collect", "update", "update"] * 2


def test_every_steps_fires_when_a_multiple_is_passed():
    hooks = [{"collect": {"steps": 40}}, {"evaluate": {"every_steps": 100}}]
    names = walk(PhaseScheduler([phase(*hooks, duration_steps=400)], {}))
    assert names.count("evaluate") == 4
    assert names[:5] == ["collect", "collect", "collect", "evaluate", "collect"]


def test_durations_end_a_phase_with_its_cycle_and_the_next_begins():
    phases = [
        phase({"collect": {"steps": 8}}, name="seed", duration_steps=20),
        phase("learn", name="offline", type="offline", duration_updates=5),
        phase("evaluate", name="judge", type="eval_only", buffer=None),
    ]
    scheduler = PhaseScheduler(phases, {})
    assert walk(scheduler, updates=2) == ["collect"] * 3 + ["learn"] * 3 + ["evaluate"]
    assert scheduler.current_phase() is None


def test_until_looks_at_the_latest_metrics():
    metrics = {}
    scheduler = PhaseScheduler([phase({"collect": {"steps": 1}}, until="eval/return >= 10")], metrics)
    assert len(walk(scheduler, count=50)) == 50
    metrics["eval/return"] = 10.0
    assert walk(scheduler) == []


def test_asking_twice_gives_the_same_answer():
    scheduler = PhaseScheduler([phase({"collect": {"steps": 4}}, "update", duration_cycles=2)], {})
    assert scheduler.next_action() == scheduler.next_action()


@pytest.mark.parametrize("cut", range(0, 30, 3))
def test_a_saved_position_goes_on_as_if_nothing_had_happened(cut):
    phases = [
        phase(
            {"collect": {"steps": 5}}, {"update": {"ratio": 0.7}}, {"evaluate": {"every_steps": 12}}, duration_steps=40
        ),
        phase("learn", {"evaluate": {"every_updates": 3}}, name="q", type="offline", duration_updates=9),
    ]
    whole = walk(PhaseScheduler(phases, {}))
    first, second = PhaseScheduler(phases, {}), PhaseScheduler(phases, {})
    begun = walk(first, count=cut)
    second.set_state(first.get_state())
    assert begun + walk(second) == whole


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"workflow_hooks": ["update"]}, "has to collect"),
        ({"type": "offline", "workflow_hooks": [{"collect": {"steps": 1}}]}, "cannot collect"),
        ({"type": "eval_only", "workflow_hooks": ["update"]}, "no hook but evaluate"),
        ({"workflow_hooks": ["collect"]}, "collect needs it"),
        ({"workflow_hooks": [{"collect": {"steps": 1}}, {"update": {"steps": 4}}]}, "steps is for collect"),
        ({"workflow_hooks": [{"collect": {"steps": 1}}, {"update": {"ratio": 1, "every_steps": 4}}]}, "one cadence"),
        ({"workflow_hooks": [{"collect": {"steps": 1}}], "until": "eval/return"}, "not a comparison"),
        ({"workflow_hooks": [{"collect": {"steps": 1}}], "buffer": None}, "name the buffer"),
        ({"type": "offline", "workflow_hooks": ["update"], "duration_steps": 9}, "without collecting"),
        ({"type": "offline", "workflow_hooks": [{"update": {"every_updates": 2}}]}, "never does anything"),
    ],
)
def test_phases_that_make_no_sense_are_refused(values, message):
    with pytest.raises(ValidationError, match=message):
        PhaseConfig(**{"name": "p", "buffer": "b", **values})


def test_hooks_in_another_order_than_a_checkpoint_has_them_are_refused():
    """A tool that sorts keys may have written the configuration again."""
    hooks = [{"collect": {"steps": 4}}, "update", {"evaluate": {"every_steps": 8}}]
    state = PhaseScheduler([phase(*hooks)], {}).get_state()
    with pytest.raises(InputError, match=r"collect, evaluate, update; .* collect, update, evaluate"):
        PhaseScheduler([phase(hooks[0], hooks[2], hooks[1])], {}).set_state(state)
    PhaseScheduler([phase(*hooks)], {}).set_state({key: state[key] for key in state if key != "hooks"})


def test_at_most_cuts_a_cycle_short_and_collect_then_takes_what_is_there():
    """As a trainer does whose workers are faster than it learns: nothing that is owed is forgotten."""
    hooks = [{"collect": {"steps": 4}}, {"update": {"ratio": 2.0, "at_most": 3}}]
    scheduler = PhaseScheduler([phase(*hooks, duration_updates=12)], {})
    seen = []
    for arrives in (4, 0, 1, 0, 4):
        action = scheduler.next_action()
        assert action.hook == "collect"
        seen.append(action.steps)
        scheduler.advance(action, steps=arrives)
        updates = 0
        while (action := scheduler.next_action()) is not None and action.hook == "update":
            resumed = PhaseScheduler([phase(*hooks, duration_updates=12)], {})
            resumed.set_state(scheduler.get_state())
            assert resumed.next_action() == action
            scheduler = resumed
            scheduler.advance(action, updates=1)
            updates += 1
        seen.append(updates)
        if action is None:
            break
    assert seen == [4, 3, 0, 3, 0, 3, 0, 1, 4, 3]


def test_at_most_while_the_buffer_is_empty_still_waits_for_steps():
    hooks = [{"collect": {"steps": 4}}, {"update": {"ratio": 2.0, "at_most": 3}}]
    scheduler = PhaseScheduler([phase(*hooks, duration_steps=40)], {})
    for _ in range(3):
        action = scheduler.next_action()
        assert (action.hook, action.steps) == ("collect", 4)
        scheduler.advance(action, steps=4)
        assert scheduler.next_action().hook == "update"
        scheduler.skip()


def test_at_most_needs_a_ratio():
    with pytest.raises(ValidationError, match="at_most"):
        phase({"collect": {"steps": 4}}, {"update": {"at_most": 3}})
