"""`evaluation.beside`: the same results as evaluations that training waits for, logged at the same steps."""

import pytest

OFTEN = ("training.phases.train.workflow_hooks.evaluate.every_steps=128", "evaluation.stochastic=true")


def results_of(run):
    outcome = run.run()
    rows = run.run_folder.read_metrics()
    found = [{name: row[name] for name in row if name.startswith("eval/")} for row in rows]
    steps = [event["agent_steps"] for event in run.run_folder.read_events() if event["event"] == "evaluation"]
    logged = [(row["agent_steps"], results) for row, results in zip(rows, found, strict=True) if results]
    learned = {name: value for name, value in outcome.latest.items() if name.startswith("train/")}
    return logged, steps, learned, outcome.best_score


def test_evaluation_beside_training_gives_the_same_results_at_the_same_steps(experiment):
    inline = results_of(experiment(*OFTEN, name="inline"))
    beside = results_of(experiment(*OFTEN, "evaluation.beside=true", name="beside"))
    assert len(beside[1]) >= 3
    assert [step for step, _ in beside[0]] == beside[1], "each is logged at the step that it belongs to"
    assert beside[1:] == inline[1:], "training is not touched by it, and the best is the same"
    assert beside[0][-1][1] == inline[0][-1][1]


def test_evaluation_beside_is_refused_where_a_phase_ends_by_it(experiment):
    with pytest.raises(ValueError, match=r"evaluation\.beside cannot be used while phase 'train'"):
        experiment("evaluation.beside=true", "+training.phases.train.until='eval/return >= 450'")
