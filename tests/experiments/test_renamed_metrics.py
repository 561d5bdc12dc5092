"""Logs of runs from before metrics were renamed are read with today's names."""

import json
import shutil
from pathlib import Path

from paddock.config.renamed import METRICS
from paddock.experiments.compare import curves
from paddock.experiments.run import RunFolder
from paddock.experiments.store.store import Store

BEFORE = Path(__file__).parents[1] / "config" / "fixtures" / "schema_3" / "dreamer"
NAMES = ["train/kl", "train/continue_loss", "controller/imagined_reward"]


def test_old_metric_names_of_a_run_become_todays(tmp_path, monkeypatch):
    run = RunFolder(shutil.copytree(BEFORE, tmp_path / "dreamer", symlinks=True))
    rows = [json.loads(line) for line in run.metrics_file.read_text().splitlines()]
    logged = [row["train/divergence"] for row in rows if row.get("train/divergence") is not None]
    assert logged
    found = curves.read_curves(run.metrics_file, NAMES)
    assert found["train/kl"].value.tolist() == logged
    assert all(len(found[name].value) for name in NAMES)
    assert {*NAMES} <= {*curves.metric_names(run.metrics_file)}
    assert not {*METRICS} & {*curves.metric_names(run.metrics_file)}
    points, _ = run.metric_lines()
    assert [row["train/kl"] for row in points if row.get("train/kl") is not None] == logged
    store = Store(tmp_path)
    store.refresh()
    (summary,) = store.summaries(metrics=["train/kl"])
    assert summary.metrics["train/kl"].last == logged[-1]
    store.close()
    monkeypatch.setattr(curves, "LARGE", 10)
    assert curves.read_curves(run.metrics_file, ["train/kl"])["train/kl"].value.tolist() == logged
