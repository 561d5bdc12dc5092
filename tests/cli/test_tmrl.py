"""`paddock tmrl`: files in and out through the command line, and TMRL's flags as Paddock's commands."""

from __future__ import annotations

import json
import pickle

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from paddock.cli import tmrl
from paddock.cli.main import VERBS
from paddock.cli.tmrl import Given, app, command_of
from paddock.components.controllers.tmrl_policy import TmrlPolicy
from paddock.core.errors import InputError
from paddock.tmrl.layouts import Layout
from paddock.tmrl.policies import make_actor, policy_config


def ran(monkeypatch, *arguments: str) -> list[str]:
    """The command of Paddock that flags lead to."""
    found: list[list[str]] = []
    monkeypatch.setattr(tmrl, "run", found.append)
    result = CliRunner().invoke(app, list(arguments), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return found[0]


TRAINED = ["trackmania_full_sac", "--preset", "tmrl"]


@pytest.mark.parametrize(
    ("flags", "command"),
    [
        (["--server"], ["relay"]),
        (["--trainer"], ["trainer", *TRAINED]),
        (["--trainer", "--wandb"], ["trainer", *TRAINED, "logging.wandb=online"]),
        (["--worker"], ["worker", *TRAINED]),
        (["--worker", "--name", "garage"], ["worker", *TRAINED, "--name", "garage"]),
        (["--expert", "--policy", "mine"], ["worker", *TRAINED, "--policy", "mine"]),
        (["--test", "--policy", "night"], ["evaluate", "night"]),
        (["--benchmark"], ["benchmark-realtime", "trackmania_full_sac"]),
        (["--record-reward"], ["record", "trajectory", "reward.safetensors", "--game", "trackmania"]),
        (["--record-reward", "--game", "twin", "--to", "a.safetensors"],
         ["record", "trajectory", "a.safetensors", "--game", "twin"]),
        (["--check-environment"], ["doctor", "--trackmania", "--game", "trackmania"]),
        (["--worker", "--game", "twin"], ["worker", *TRAINED, "environment.game=twin"]),
        (["--trainer", "--config", "a.yaml"], ["trainer", "--config", "a.yaml"]),
        (["--worker", "-d", '{"time_step_duration": 0.1}'], ["worker", *TRAINED, "environment.time_step_duration=0.1"]),
        (
            ["--preset", "smoke", "--name", "x", "--override", "seed=3", "--override", "workflow.gamma=0.9"],
            ["train", "trackmania_full_sac", "--preset", "smoke", "seed=3", "workflow.gamma=0.9", "--name", "x"],
        ),
        (["--experiment", "sac_realtime", "--preset", "none", "--trainer"], ["trainer", "sac_realtime"]),
    ],
)  # fmt: skip
def test_tmrl_flags_run_the_command_that_does_the_same(monkeypatch, flags, command):
    assert ran(monkeypatch, *flags) == command


def test_tmrl_benchmark_takes_the_environment_of_an_imported_experiment(monkeypatch, tmp_path):
    (tmp_path / "mine.yaml").write_text("defaults: [trackmania_lidar_sac]\nenvironment: {pad: gamepad, history: 4}\n")
    found = ran(monkeypatch, "--benchmark", "--config", str(tmp_path / "mine.yaml"))
    assert found == ["benchmark-realtime", "trackmania_lidar_sac", 'environment.pad="gamepad"', "environment.history=4"]


def test_tmrl_flags_that_do_not_go_together_are_refused():
    given = Given("x", None, None, [])
    with pytest.raises(InputError, match="which policy"):
        command_of("test", given)
    for flags in (["--server", "--trainer"], ["--worker", "--wandb"], ["--trainer", "-d", "{broken"]):
        with pytest.raises(InputError):
            CliRunner().invoke(app, flags, catch_exceptions=False)


def test_tmrl_list_presets_and_install_answer():
    runner = CliRunner()
    listed = runner.invoke(app, ["--list-presets"])
    assert "tmrl " in listed.output
    assert "smoke" in listed.output
    assert "nothing has to be installed" in runner.invoke(app, ["--install"]).output
    assert "--record-reward" in runner.invoke(app, []).output


def test_tmrl_is_a_verb():
    assert VERBS["tmrl"][0] == "paddock.cli.tmrl"


def test_tmrl_preset_trains_through_the_flags_of_train_py(tmp_path, paddock):
    """`--preset`, `--override` and `--name` without a role train in this process."""
    done = paddock(
        "tmrl", "--experiment", "sac_pendulum", "--preset", "smoke", "--name", "here",
        "--override", "training.total_steps=64", "--override", "training.phases.seed.duration_steps=32",
        "--override", "buffers.replay.batch_size=8", "--override", "evaluation.episodes=1",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert [path.name.startswith("here-") for path in (tmp_path / "runs").iterdir() if path.is_dir()] == [True]


def test_tmrl_import_and_export_through_the_command_line(tmp_path, paddock):
    layout = Layout("lidar")
    policy = TmrlPolicy(policy_config(layout, [32, 32]), layout.spec())
    make_actor(policy, layout.spec()).save(tmp_path / "policy")
    exported = paddock("tmrl", "export", "policy", "--to", "weights/mine.tmod", "--json")
    assert exported.returncode == 0, exported.stderr
    found = torch.load(tmp_path / "weights" / "mine.tmod", weights_only=True)
    assert all(torch.equal(value, policy.state_dict()[name]) for name, value in found.items())

    points = np.random.default_rng(0).normal(size=(9, 3))
    (tmp_path / "reward").mkdir()
    (tmp_path / "reward" / "reward.pkl").write_bytes(pickle.dumps(points))
    imported = paddock("tmrl", "import", ".", "--to", "back", "--json")
    assert imported.returncode == 0, imported.stderr
    report = json.loads(imported.stdout)
    assert [one["components"] for one in report["policies"]] == [["policy"]]
    written = paddock("tmrl", "export", report["trajectories"][0], "--to", "again.pkl")
    assert written.returncode == 0, written.stderr
    np.testing.assert_array_equal(pickle.loads((tmp_path / "again.pkl").read_bytes()), points)

    (tmp_path / "evil.pkl").write_bytes(b"cos\nsystem\n(S'touch ran'\ntR.")
    refused = paddock("tmrl", "import", "evil.pkl", "--to", "evil")
    assert refused.returncode == 2
    assert "it names 'os.system'" in refused.stderr
    assert not (tmp_path / "ran").exists()
