"""Grouping, scores, curves and differences; reading long logs; exporting; cleaning up."""

import json
from dataclasses import replace

import numpy as np
import pytest

from paddock.core.errors import InputError
from paddock.experiments.compare import curves
from paddock.experiments.compare.compare import (
    aggregates,
    bands,
    compare,
    config_table,
    improvements,
    is_lower_better,
    profiles,
    warnings,
)
from paddock.experiments.compare.table import comparison_values, show_comparison
from paddock.experiments.export import export_rows, write_rows
from paddock.experiments.store.cleanup import carry_out, parse_size, plan_cleanup
from paddock.experiments.store.store import open_store


@pytest.fixture
def two_recipes(tmp_path, make_run):
    for seed, score in ((1, 10.0), (2, 20.0), (3, 30.0)):
        make_run(tmp_path, "old", seed=seed, scores=(0.0, score))
        make_run(tmp_path, "new", seed=seed, scores=(0.0, score + 15), clip=0.3)
    return tmp_path


def test_runs_that_differ_in_their_seed_only_are_one_group(two_recipes):
    comparison = compare(two_recipes, ["old", "new"])
    assert [(group.label, len(group.members)) for group in comparison.groups] == [("old", 3), ("new", 3)]
    found = aggregates(comparison)
    assert found["old"]["mean"]["value"] == 20
    assert found["new"]["iqm"]["value"] == 35
    assert found["old"]["mean"]["low"] < 20 < found["old"]["mean"]["high"]
    assert comparison.ranges == {"CartPole-v1": (0.0, 45.0)}
    assert found["new"]["optimality_gap"]["value"] == pytest.approx(1 - 35 / 45)
    assert improvements(comparison)[0]["value"] == pytest.approx(1 / 9), "one of nine pairs"
    assert config_table(comparison) == [{"key": "workflow.clip_ratio", "values": {"old": [0.2], "new": [0.3]}}]


def test_one_name_for_two_recipes_is_told_apart(tmp_path, make_run):
    make_run(tmp_path, "a", seed=1)
    make_run(tmp_path, "a", seed=2, clip=0.5)
    assert [group.label for group in compare(tmp_path, ["a"]).groups] == ["a (clip_ratio=0.2)", "a (clip_ratio=0.5)"]


def test_groups_by_option_and_by_field(two_recipes, make_run):
    labels = [group.label for group in compare(two_recipes, ["*"], group_by=["config.workflow.clip_ratio"]).groups]
    assert sorted(labels) == ["clip_ratio=0.2", "clip_ratio=0.3"]
    make_run(two_recipes, "old", seed=9, scores=(1.0, 5.0), environment="Pendulum-v1")
    comparison = compare(two_recipes, ["*"], group_by=["algorithm"], ranges={"Pendulum-v1": (0.0, 10.0)})
    assert [group.label for group in comparison.groups] == ["algorithm=ppo"]
    assert comparison.tasks == ["CartPole-v1", "Pendulum-v1"]
    pendulum = comparison.normalised(comparison.groups[0], ["Pendulum-v1"])[0]
    assert pendulum.tolist() == [0.5]


def test_the_best_evaluation_can_count_in_place_of_the_last(tmp_path, make_run):
    make_run(tmp_path, "a", scores=(1.0, 9.0, 3.0))
    assert compare(tmp_path, ["a"]).members[0].score == 3.0
    assert compare(tmp_path, ["a"], which="best").members[0].score == 9.0
    assert compare(tmp_path, ["a"], which="best", metrics=["train/loss"]).members[0].score == pytest.approx(1 / 3)
    assert is_lower_better("eval/best_lap", [])
    assert not is_lower_better("eval/return", [])


def test_whether_lower_is_better_is_what_the_runs_records_say(tmp_path, make_run):
    (run,) = compare(tmp_path, [make_run(tmp_path, "a", scores=(1.0, 9.0)).name]).members
    assert not is_lower_better("eval/slip", [run.summary])
    said = replace(run.summary, config={**run.summary.config, "evaluation.records.eval/slip": "low"})
    assert is_lower_better("eval/slip", [said])
    assert not is_lower_better("eval/slip", [replace(said, metric="eval/slip")]), "the run's own metric is better high"


def test_a_band_covers_what_its_runs_reached(tmp_path, make_run):
    make_run(tmp_path, "a", seed=1, scores=(0.0, 10.0))
    make_run(tmp_path, "a", seed=2, scores=(0.0, 20.0, 40.0))
    group = compare(tmp_path, ["a"]).groups[0]
    found = bands(group, "eval/return", "steps")
    assert (found["x"][0], found["x"][-1]) == (100.0, 300.0)
    assert found["value"][-1] == 40.0, "only one run came so far"
    middle = int(np.argmin(np.abs(np.array(found["x"]) - 200)))
    assert found["value"][middle] == pytest.approx(15.0, abs=0.5)
    assert bands(group, "eval/return", "seconds")["x"][-1] == 3.0


def rewarded(run, reward):
    """The run with a reward, which its environment takes over from the top of the configuration."""
    config = run.read_config()
    run.write_config({**config, "environment": {**config["environment"], "reward": reward}, "reward": reward})


def test_compare_survives_options_of_every_type(tmp_path, make_run, capsys):
    odd = [{}, [], None, "text", 2.5, 10**20, True, "", float("inf"), {"slide": {"function": "f.py:f"}}, [1, {"a": 2}]]
    for number, value in enumerate(odd):
        rewarded(make_run(tmp_path, f"run{number}"), {"custom": value})
    rewarded(make_run(tmp_path, "without"), {})
    show_comparison(comparison_values(compare(tmp_path, ["*"])))
    shown = capsys.readouterr().out
    assert "reward.custom.slide.function" in shown
    assert "{}" in shown


def test_compare_lists_an_option_that_another_takes_over_once(tmp_path, make_run):
    rewarded(make_run(tmp_path, "a"), {"progress": {"weight": 0.1}, "custom": {}})
    rewarded(make_run(tmp_path, "b"), {"progress": {"weight": 0.5}, "custom": {"mine": {"weight": 1.0}}})
    keys = [row["key"] for row in config_table(compare(tmp_path, ["a", "b"]))]
    assert keys == ["reward.progress.weight", "reward.custom", "reward.custom.mine.weight"]


def test_compare_calls_a_group_alone_on_its_task_not_comparable(tmp_path, make_run, capsys):
    """A run that never finished a lap, alone on its track, must not come out on top."""
    make_run(tmp_path, "demo", environment="meadow", scores=(0.0, 0.9))
    make_run(tmp_path, "slide", environment="meadow", scores=(0.0, 0.8))
    make_run(tmp_path, "lost", environment="Spielberg", scores=(0.0, 0.0))
    comparison = compare(tmp_path, ["demo", "slide", "lost"])
    values = comparison_values(comparison)
    by_label = {group["group"]: group for group in values["groups"]}
    assert by_label["demo"]["iqm"]["value"] == 1.0
    assert [by_label["lost"][name] for name in ("iqm", "median", "mean", "optimality_gap")] == [None] * 4
    assert values["tasks"]["Spielberg"]["is_comparable"] is False
    assert "lost" not in profiles(comparison)["groups"]
    assert [(one["ours"], one["theirs"]) for one in values["improvements"]] == [("demo", "slide")]
    alone, strangers = values["warnings"]
    assert "Spielberg is not comparable" in alone
    assert "'demo' and 'lost', 'slide' and 'lost'" in strangers
    show_comparison(values)
    shown = capsys.readouterr().out
    assert "lost\t1\tnot comparable\tnot comparable" in shown
    assert f"note: {strangers}" in shown


def test_compare_takes_a_given_range_for_a_task_without_an_opponent(tmp_path, make_run):
    make_run(tmp_path, "a", environment="meadow", scores=(0.0, 0.9))
    make_run(tmp_path, "b", environment="Spielberg", scores=(0.0, 0.3))
    comparison = compare(tmp_path, ["a", "b"], ranges={"Spielberg": (0.0, 1.0)})
    found = aggregates(comparison)
    assert found["b"]["mean"]["value"] == 0.3
    assert found["a"]["mean"] is None
    assert any("No task in common" in text for text in warnings(comparison))


def test_compare_of_scores_that_never_changed_is_a_tie_and_has_no_optimality_gap(tmp_path, make_run):
    make_run(tmp_path, "a", scores=(500.0, 500.0))
    make_run(tmp_path, "b", scores=(500.0, 500.0))
    comparison = compare(tmp_path, ["a", "b"])
    found = aggregates(comparison)
    assert found["a"]["iqm"]["value"] == 500.0
    assert found["a"]["optimality_gap"] is None
    assert improvements(comparison)[0]["value"] == 0.5
    assert "500 would count as 0 and as 1" in warnings(comparison)[0]


def test_compare_gives_a_single_run_no_interval(tmp_path, make_run, capsys):
    make_run(tmp_path, "demo", scores=(0.0, 0.955))
    make_run(tmp_path, "slide", scores=(0.0, 0.5))
    comparison = compare(tmp_path, ["demo", "slide"])
    values = comparison_values(comparison)
    assert values["groups"][0]["iqm"] == {"value": 0.955, "low": None, "high": None}
    assert values["improvements"] == [{"ours": "demo", "theirs": "slide", "value": 1.0, "low": None, "high": None}]
    assert bands(comparison.groups[0], "eval/return", "steps")["low"] is None
    assert profiles(comparison)["groups"]["demo"]["low"] is None
    show_comparison(values)
    shown = capsys.readouterr().out
    assert "demo\t1\t0.955, n = 1" in shown
    assert "demo > slide\t1, n = 1" in shown
    assert "[" not in shown.split("option")[0]
    groups = export_rows(tmp_path, ["demo"], "groups", [], [])
    assert "| demo | 1 | 0.955 | 0.955 |" in write_rows(groups, "markdown", None)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"metrics": ["eval/retur"]}, "Did you mean 'eval/return'"),
        ({"group_by": ["config.workflow.clp"]}, "Did you mean 'config.workflow.clip_ratio'"),
    ],
)
def test_what_runs_do_not_have_gets_a_suggestion(two_recipes, arguments, message):
    with pytest.raises(InputError, match=message):
        compare(two_recipes, ["*"], **arguments)


def test_an_unevaluated_run_is_refused_in_words(tmp_path, make_run):
    make_run(tmp_path, "a", scores=())
    with pytest.raises(InputError, match="has been evaluated yet"):
        compare(tmp_path, ["a"])


def test_a_long_log_is_sampled_evenly_and_keeps_its_end(tmp_path, monkeypatch):
    monkeypatch.setattr(curves, "LARGE", 1000)
    monkeypatch.setattr(curves, "SAMPLED", 200)
    file, random = tmp_path / "metrics.jsonl", np.random.default_rng(0)
    values = random.normal(size=20_000)
    lines = []
    for k, value in enumerate(values):
        evaluated = {"eval/return": float(k)} if k % 1000 == 999 else {}
        lines.append(json.dumps({"agent_steps": k, "seconds": k / 10, "collect/return": float(value), **evaluated}))
    file.write_text("\n".join(lines) + '\n{"agent_steps": 99999999, "collect/re')
    dense, sparse = (
        curves.read_curves(file, ["collect/return", "eval/return"])[name] for name in ("collect/return", "eval/return")
    )
    assert sparse.value.tolist() == [float(k) for k in range(999, 20_000, 1000)], "the rare ones are all there"
    assert 190 <= len(dense.value) <= 202
    assert dense.steps[-1] == 19_999
    assert (dense.value == values[dense.steps.astype(int)]).all()
    assert np.diff(dense.steps).max() < 3 * 20_000 / 200


def test_thinning_gives_means_and_the_last_point():
    curve = curves.Curve(np.arange(1000.0), np.arange(1000.0), np.arange(1000.0))
    thin = curve.thinned(11)
    assert len(thin.value) == 11
    assert thin.value[-1] == 999
    assert thin.value[0] == pytest.approx(np.arange(99).mean(), abs=0.5)


def test_reading_matches_json_line_by_line(real_runs):
    file = next(real_runs.glob("fast*/metrics.jsonl"))
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    found = curves.read_curves(file, ["eval/return", "train/kl", "never/logged"])
    for name in ("eval/return", "train/kl"):
        assert found[name].value.tolist() == [row[name] for row in rows if name in row]
    assert found["never/logged"].is_empty
    assert "train/kl" in curves.metric_names(file)


def test_exports(two_recipes, tmp_path):
    points = export_rows(two_recipes, ["*"], "points", ["eval/return"], [])
    assert len(points) == 12
    assert set(points[0]) == {"run", "seed", "agent_steps", "seconds", "phase", "eval/return"}
    text = write_rows(points, "csv", None)
    assert text.splitlines()[0] == "run,seed,agent_steps,seconds,phase,eval/return"
    assert len(text.splitlines()) == 13
    assert len(json.loads(write_rows(points, "json", None))) == 12
    import pyarrow.parquet

    write_rows(points, "parquet", tmp_path / "out" / "points.parquet")
    assert pyarrow.parquet.read_table(tmp_path / "out" / "points.parquet").num_rows == 12
    groups = export_rows(two_recipes, ["old", "new"], "groups", [], [])
    assert "| old | 3 | 20 [10, 30] |" in write_rows(groups, "markdown", None)
    latex = write_rows(groups, "latex", None)
    assert latex.startswith(r"\begin{tabular}{lrrrrr}")
    assert r"old & 3 & 20 [10, 30]" in latex
    runs = export_rows(two_recipes, ["old"], "runs", [], [])
    assert sorted(row["eval/return"] for row in runs) == [10.0, 20.0, 30.0]


def test_cleanup_frees_what_it_says_and_spares_what_it_must(tmp_path, make_run):
    runs = {}
    for seed, (name, score) in enumerate(
        [("best", 9.0), ("pinned", 1.0), ("alive", 2.0), ("plain", 3.0), ("newest", 4.0)]
    ):
        run = runs[name] = make_run(tmp_path, name, seed=seed, scores=(score,))
        (run.checkpoints / "step-1").mkdir(parents=True)
        (run.checkpoints / "step-1" / "state").write_bytes(b"x" * 1000)
        (run.checkpoints / "step-2").mkdir()
        (run.checkpoints / "step-2" / "state").hardlink_to(run.checkpoints / "step-1" / "state")
    runs["pinned"].write_labels(tags=[], is_pinned=True)
    runs["alive"].write_manifest(status="running")
    with runs["alive"].lock():
        store = open_store(tmp_path)
        plan = plan_cleanup(store, keep_best=1, keep_recent=1)
        reasons = {name.rsplit("-", 2)[0]: reason for name, reason in plan.kept.items()}
        assert reasons == {"best": "among the best", "pinned": "pinned", "alive": "running", "newest": "recent"}
        assert plan.thinned == {runs["plain"].name: 1000}, "a file linked twice is counted once"
        carry_out(store, plan)
    assert not runs["plain"].checkpoints.exists()
    assert runs["plain"].read_metrics()
    assert runs["plain"].config_file.exists()
    assert all(runs[name].checkpoints.exists() for name in ("best", "pinned", "alive", "newest"))


def test_cleanup_to_a_size_takes_the_oldest(tmp_path, make_run):
    for seed in range(3):
        run = make_run(tmp_path, "a", seed=seed)
        run.videos.mkdir()
        (run.videos / "film").write_bytes(b"x" * 100_000)
    plan = plan_cleanup(open_store(tmp_path), max_size=250_000)
    assert [name.rsplit("-", 1)[0] for name in plan.thinned] == [
        sorted(p.name for p in tmp_path.glob("a-*"))[0].rsplit("-", 1)[0]
    ]
    assert len(plan.thinned) == 1
    with pytest.raises(InputError, match="say what to keep"):
        plan_cleanup(open_store(tmp_path))


@pytest.mark.parametrize(("text", "expected"), [("50G", 50 * 10**9), ("1.5 MB", 1_500_000), ("800", 800), ("2k", 2000)])
def test_sizes(text, expected):
    assert parse_size(text) == expected


def test_a_bad_size_is_refused():
    with pytest.raises(InputError, match="is not a size"):
        parse_size("big")


def test_export_to_csv_writes_no_formulas_and_leaves_numbers_alone(tmp_path, make_run):
    run = make_run(tmp_path, "a", scores=(-1.0, 2.0), environment="=HYPERLINK(0)")
    rows = [{**row, "phase": phase} for row, phase in zip(run.read_metrics(), ("@SUM(1)", "-2+3"), strict=True)]
    run.metrics_file.write_text("".join(json.dumps({**row, "=eval/x": 1.0}) + "\n" for row in rows))
    lines = write_rows(export_rows(tmp_path, ["a"], "points", [], []), "csv", None).splitlines()
    assert lines[0].endswith(",'=eval/x")
    assert ",'@SUM(1),-1.0," in lines[1]
    assert ",'-2+3,2.0," in lines[2]
    assert ",'=HYPERLINK(0)," in write_rows(export_rows(tmp_path, ["a"], "runs", [], []), "csv", None)
