"""`eval/kept`: how much of its best evaluation a run still has."""

import json

import pytest

from paddock.evaluation.results import Scores


def test_kept_counts_from_the_first_score():
    scores = Scores()
    kept = []
    for score in (-200.0, -100.0, -150.0, 0.0, -250.0):
        kept.append(scores.kept(score))
        scores.add(score)
    assert kept == pytest.approx([1.0, 1.0, 0.5, 1.0, -0.25])
    assert (scores.first, scores.best) == (-200.0, 0.0)


def test_a_new_best_is_said_once():
    scores = Scores()
    assert [scores.add(score) for score in (1.0, 1.0, 2.0, 1.5)] == [True, False, True, False]


def test_a_run_logs_and_saves_what_it_kept(experiment):
    run = experiment("training.phases.train.workflow_hooks.evaluate.every_steps=128")
    run.run()
    rows = [row for row in run.run_folder.read_metrics() if "eval/kept" in row]
    scores = [row["eval/return"] for row in rows]
    best = scores[0]
    for score, row in zip(scores, rows, strict=True):
        best = max(best, score)
        expected = 1.0 if score >= best or best == scores[0] else (score - scores[0]) / (best - scores[0])
        assert row["eval/kept"] == pytest.approx(expected)
    assert len(rows) >= 3
    newest = max((run.run_folder.path / "checkpoints").glob("step-*"))
    state = json.loads((newest / "state.json").read_text())
    assert (state["first_score"], state["best_score"]) == (scores[0], max(scores))
