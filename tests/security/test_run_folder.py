"""A stranger's run folder is data: to resume or verify it runs nothing, sends nothing and touches nothing outside."""

import json
import shutil

import pytest
import yaml
from rich.console import Console
from strangers import CARTPOLE, RACING, Catcher, make_run, resume, tampered, trap

from paddock.config.compose import SHIPPED
from paddock.core.errors import InputError
from paddock.core.permission import UntrustedError
from paddock.experiments.run import RunFolder
from paddock.experiments.store.show import config_differences, describe_run
from paddock.experiments.store.summaries import read_summary
from paddock.experiments.verify import verify
from paddock.orchestration.launch import Request, new_run, resolve
from paddock.orchestration.subject import find_subject

ALERT = "train/entropy > -100"
MORE = "training.total_steps=256"
OWN_REWARD = "def slide(car):\n    return 0.1 * abs(car['vy'])\n"


def alert(**what):
    return lambda values: values["monitoring"]["alerts"].update(x={"when": ALERT, **what})


@pytest.fixture
def attack(person, strangers_run):
    """Make the folder of a stranger's run with one change."""

    def make(change):
        return tampered(strangers_run, person / "runs" / "shared-20260101-000000", change)

    return make


# --- commands, addresses, modules ---


def test_resume_runs_no_command_of_a_strangers_alert(attack, paddock, person):
    marker = person / "MARKER"
    run = attack(alert(command=f"id > {marker}"))
    done = paddock("train", "--resume", str(run), MORE)
    assert done.returncode == 2
    assert "monitoring.alerts.x.command runs the command" in done.stderr
    assert "--trust" in done.stderr
    assert "Traceback" not in done.stderr
    assert not marker.exists()


def test_resume_sends_nothing_to_a_strangers_webhook(attack, monkeypatch):
    monkeypatch.setenv("MY_API_SECRET", "hunter2")
    catcher = Catcher()
    run = attack(alert(webhook=catcher.address + "/${oc.env:MY_API_SECRET}"))
    with pytest.raises(UntrustedError, match="sends to 'http://127"):
        resume(run, MORE)
    assert catcher.caught == []
    resume(run, MORE, trusts=True)
    catcher.close()
    assert catcher.caught
    assert not any("hunter2" in path for path in catcher.caught)  # A saved text stays the text that it is.


def test_resume_resolves_no_variable_of_a_saved_file(attack, monkeypatch):
    monkeypatch.setenv("MY_API_SECRET", "hunter2")
    run = attack(lambda values: values.update(tags=["${oc.env:MY_API_SECRET}", "$plain"]))
    resume(run, MORE, "tags=[typed,'seed ${seed}']")
    assert yaml.safe_load((run / "config.yaml").read_text())["tags"] == ["typed", "seed 1"]
    again = tampered(
        run, run.parent / "again-20260101-000000", lambda values: values.update(tags=["${oc.env:MY_API_SECRET}"])
    )
    resume(again, "training.total_steps=384")
    assert "hunter2" not in (again / "config.yaml").read_text()


def test_resume_imports_no_module_of_a_strangers_environment(attack, paddock, person, tmp_path):
    marker = trap(tmp_path, "evilmod.py")  # beside where `python -m paddock` is started
    run = attack(lambda values: values["environment"].update(id="evilmod:CartPole-v1"))
    done = paddock("train", "--resume", str(run), MORE)
    assert done.returncode == 2
    assert "environment.id imports the package of 'evilmod:CartPole-v1'" in done.stderr
    for attempt in (verify, lambda found: find_subject(str(found.path), person, controller="random")):
        with pytest.raises(UntrustedError, match="evilmod"):
            attempt(RunFolder(run))
    assert not marker.exists()


def test_verify_of_a_run_with_an_alert_runs_without_it(attack, person):
    marker = person / "MARKER"
    run = attack(alert(command=f"touch {marker}"))
    assert verify(RunFolder(run), steps=64).divergence is None
    assert not marker.exists()


# --- links and names ---


def test_resume_does_not_truncate_what_lock_links_to(attack, person):
    (person / "precious").write_text("years of work")
    run = attack(lambda values: None)
    (run / "lock").unlink()
    (run / "lock").symlink_to(person / "precious")
    with pytest.raises(UntrustedError, match="lock is a link that leads outside the folder"):
        resume(run, MORE)
    with pytest.raises(InputError, match="is a link or a pipe"):  # Not even where the folder is trusted.
        resume(run, MORE, trusts=True)
    assert (person / "precious").read_text() == "years of work"


@pytest.mark.parametrize("name", ["events.jsonl", "metrics.jsonl", "manifest.json", "policy", "checkpoints"])
def test_resume_does_not_write_through_links(attack, person, name):
    run = attack(lambda values: None)
    outside = person / "precious"
    shutil.move(run / name, outside)
    (run / name).symlink_to(outside)
    before = sorted((file, file.stat().st_mtime_ns) for file in [outside, *outside.rglob("*")])
    with pytest.raises(UntrustedError, match=rf"{name} is a link"):
        resume(run, MORE)
    assert sorted((file, file.stat().st_mtime_ns) for file in [outside, *outside.rglob("*")]) == before


def test_resume_follows_links_inside_the_run(attack):
    run = attack(lambda values: None)
    assert (run / "checkpoints" / "latest").is_symlink()
    assert resume(run, MORE).counters.agent_steps == 256


def test_resume_refuses_a_buffer_whose_name_is_a_path(attack, person):
    def rename(values):
        values["buffers"]["../../../../../escaped"] = values["buffers"]["rollout"]

    run = attack(rename)
    with pytest.raises(UntrustedError, match="escaped"):
        resume(run, MORE)
    with pytest.raises(InputError, match="cannot name a part; use letters"):
        resume(run, MORE, trusts=True)
    assert not list(person.parent.rglob("escaped*"))


def test_resume_writes_no_recording_elsewhere(attack, person):
    (person / "data").mkdir()
    (person / "data" / "rows-000000099.json").write_text("precious")

    def record(values):
        values["buffers"]["x"] = {"_target_": "paddock.buffers.recordings.RecordingBuffer", "folder": "data"}

    run = attack(record)
    with pytest.raises(UntrustedError, match=r"buffers\.x\.folder writes to the folder 'data'"):
        resume(run, MORE)
    assert [file.name for file in (person / "data").iterdir()] == ["rows-000000099.json"]


def test_resume_refuses_a_pipe_in_a_run(attack):
    import os

    run = attack(lambda values: None)
    os.mkfifo(run / "profile.txt")
    with pytest.raises(UntrustedError, match="neither a file nor a folder"):
        resume(run, MORE)


# --- one's own work ---


def test_run_with_an_own_reward_is_resumed_raced_and_trusted(person, monkeypatch, caplog):
    (person / "my_rewards.py").write_text(OWN_REWARD)
    own = "+reward.custom={slide: {function: 'my_rewards.py:slide', weight: 0.5}}"
    run = make_run(person / "runs", "racing", *RACING, own)
    assert (run / "code" / "my_rewards.py").read_text() == OWN_REWARD
    kept = json.loads((run / "manifest.json").read_text())["code"]["files"]["my_rewards.py"]
    assert len(kept["sha256"]) == 64

    # One's own run is resumed without a question, with the code that it began with.
    resume(run, "training.total_steps=256")
    assert caplog.text == ""
    (person / "my_rewards.py").write_text("def slide(car):\n    return 1e6\n")
    resume(run, "training.total_steps=384")
    assert "'my_rewards.py' has changed since run" in caplog.text
    assert "continues with its own copy" in caplog.text
    rows = RunFolder(run).read_metrics()
    assert 0.0 < max(row.get("collect/reward_terms/slide", 0.0) for row in rows if row["agent_steps"] > 256) < 1e3
    assert max(row["eval/return"] for row in rows if "eval/return" in row) < 1e3

    # `verify` replays the copy, and does not call a changed file the same code.
    verdict = verify(RunFolder(run), steps=64)
    assert verdict.divergence is None
    assert [name for name, *_ in verdict.differences if name.startswith("code")] == ["code my_rewards.py"]
    assert any("my_rewards.py" in note for note in verdict.notes)

    # Elsewhere, without the file: its policy is raced and evaluated, since laps need no reward.
    elsewhere = person.parent / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    found = find_subject("shared", person / "runs")
    assert found.left_out == ["slide"]
    found.make_env(1, None).close()

    # Another person is asked about the run, once; a single byte more is another question.
    moved = tampered(run, elsewhere / "runs" / run.name, lambda values: None)
    monkeypatch.setenv("PADDOCK_HOME", str(elsewhere / "home"))
    with pytest.raises(UntrustedError, match=r"runs the Python file 'my_rewards\.py:slide'"):
        resume(moved, "training.total_steps=448")
    resume(moved, "training.total_steps=448", trusts=True)
    resume(moved, "training.total_steps=512")
    with (moved / "code" / "my_rewards.py").open("a") as file:
        file.write("#")
    with pytest.raises(UntrustedError, match="--trust"):
        resume(moved, "training.total_steps=576")


def test_run_with_own_opponents_is_evaluated_elsewhere_from_its_copy(person, monkeypatch):
    (person / "rival.py").write_text("import numpy\n\ndef drive(seen):\n    return numpy.zeros((len(seen), 2))\n")
    run = make_run(person / "runs", "racing", *RACING, "environment.opponents={count: 1, driver: 'rival.py:drive'}")
    (person / "rival.py").unlink()
    monkeypatch.chdir(person.parent)
    found = find_subject(str(run), person)
    found.evaluator(found.actor, found.make_env, episodes=1, seed=0, deterministic=True)
    monkeypatch.setenv("PADDOCK_HOME", str(person.parent / "another"))
    with pytest.raises(UntrustedError, match=r"runs the Python file 'rival\.py:drive'"):
        find_subject(str(run), person)


def test_run_with_a_package_of_ones_own_goes_on_without_it(paddock, tmp_path):
    (tmp_path / "mylab").mkdir()
    (tmp_path / "mylab" / "__init__.py").write_text(
        "import gymnasium\n"
        "point = 'gymnasium.envs.classic_control:CartPoleEnv'\n"
        "gymnasium.register('Mine-v0', entry_point=point, max_episode_steps=50)\n"
    )
    done = paddock("train", "ppo_cartpole", "--name", "mine", *CARTPOLE, "environment.id=mylab:Mine-v0")
    assert done.returncode == 0, done.stderr
    (run,) = (tmp_path / "runs").glob("mine-*")
    assert (run / "code" / "packages" / "mylab" / "__init__.py").is_file()
    shutil.rmtree(tmp_path / "mylab")
    again = paddock("train", "--resume", "mine", MORE)
    assert again.returncode == 0, again.stderr
    stranger = paddock("train", "--resume", "mine", "training.total_steps=384", PADDOCK_HOME=str(tmp_path / "another"))
    assert stranger.returncode == 2
    assert "imports the package of 'mylab:Mine-v0'" in stranger.stderr


def test_resume_of_a_run_without_code_asks_nobody(attack):
    run = attack(lambda values: None)
    assert not (run / "signature.json").exists()
    resume(run, MORE, "monitoring.alerts.mine={when: 'train/entropy > -100', command: 'true'}")
    resume(run, "training.total_steps=384")  # The command was typed here, and the run is signed with it since.


def test_show_composes_no_file_that_a_strangers_manifest_names(person, strangers_run, monkeypatch):
    """The same file named by this user's own run is read, so that `show` says how the run differs from it."""
    monkeypatch.setenv("MY_API_SECRET", "hunter2")
    outside = person / "outside.yaml"
    shipped = (SHIPPED / "experiment" / "ppo_cartpole.yaml").read_text()
    outside.write_text(shipped + "tags: ['${oc.env:MY_API_SECRET}']\n")
    own = paddock_run(person, outside)
    assert config_differences(own.read_manifest()["origin"], read_summary(own))["seed"][1] == 7
    run = RunFolder(shutil.copytree(strangers_run, person / "runs" / "shared-20260101-000000"))
    run.write_manifest(origin={"experiment": None, "user": str(outside), "preset": None, "overrides": []})
    assert describe_run(run)["config_differences"] is None
    forged = {**own.read_manifest()["origin"], "user": "/etc/passwd"}
    assert config_differences(forged, read_summary(own)) is None


def paddock_run(person, file):
    request = Request(user=file, seed=7, overrides=[*CARTPOLE, f"runs_dir={person / 'runs'}"])
    with new_run(resolve(request)[0], Console(quiet=True), request) as orchestrator:
        orchestrator.run()
    return orchestrator.run_folder
