"""What several tests use: runs made in a temporary folder, and the command line as a person runs it."""

from __future__ import annotations

import fcntl
import os
import subprocess
from fnmatch import fnmatch
from pathlib import Path

import pytest

from quiet_runs import quiet_run
from warm_program import warm_program

# Caches of the tests stay inside the clone.
os.environ.setdefault("PADDOCK_HOME", str(Path(__file__).parents[1] / ".cache" / "paddock"))
SMALL_CARTPOLE = (
    "environment.num_envs=4",
    "workflow.rollout_steps=128",
    "workflow.minibatch_size=64",
    "workflow.epochs=2",
    "training.total_steps=512",
    "evaluation.episodes=2",
    "logging.every_steps=128",
)
# What `make test-fast` leaves out. By fixture: Chromium, servers, `paddock` in a process of its own.
SLOW_FIXTURES = {
    "chromium_program", "paddock", "real_runs", "strangers_run", "strangers_racing_policy", "wall",
}  # fmt: skip
# By pattern of the node id, where the test takes more than two seconds: learning, killing and resuming, campaigns,
# other simulators.
SLOW_TESTS = (
    "*interrupted*",
    "*killed*",
    "*learn_to*",
    "*learns*",
    "cli/test_tracks.py*list_shows*",
    "cli/test_train*",
    "components/test_compile_modes.py*",
    "components/test_networks.py*saved_and_loaded*",
    "components/test_planners.py*terminal_value*",
    "components/test_scaling.py*learn_numbers*",
    "config/test_moved.py*evaluated*",
    "config/test_moved.py*resumes*",
    "config/test_plugins.py*",
    "config/test_validate.py*every_shipped_experiment*",
    "control/test_channel.py*",
    "core/test_system.py*windows*",
    "core/test_trees.py*scalars*",
    "dashboard/test_server.py*",
    "distributed/*sigkill*",
    "distributed/test_experience.py*",
    "distributed/test_ray_*",
    "distributed/test_relay_schedules.py*once_and_in_order?[257]*",
    "distributed/test_sessions*",
    "distributed/test_training_kills.py*",
    "dream/*",
    "environments/test_conformance.py*[[]atari*",
    "environments/test_conformance.py*[[]carracing*",
    "environments/test_conformance.py*[[]dmc*",
    "environments/test_conformance.py*async*",
    "environments/test_realtime.py*1000*",
    "environments/test_trackmania_devices.py*process*",
    "environments/test_trackmania_devices.py*x11*",
    "environments/test_trackmania_doctor.py*",
    "environments/test_trackmania_realtime.py*",
    "evaluation/test_world_model_diagnostics.py*",
    "experiments/test_benchmark.py*",
    "experiments/test_campaigns.py*",
    "experiments/test_statistics.py*rliable[[]many*",
    "experiments/test_store.py*kill*",
    "experiments/test_store.py*many_processes*",
    "orchestration/test_alerts.py*",
    "orchestration/test_faults.py*",
    "orchestration/test_learners.py*",
    "orchestration/test_orchestrator.py*",
    "orchestration/test_realtime_away.py*",
    "orchestration/test_resume*",
    "orchestration/test_reward_sets.py*",
    "orchestration/test_terminal.py*refreshed*",
    "racing/test_classical_actor.py*resumes*",
    "racing/test_corrections.py*",
    "racing/test_drive.py*",
    "racing/test_drive_archive.py*",
    "racing/test_laps.py*",
    "racing/test_learning_to_race.py*",
    "racing/test_person_beside_agent.py*channel*",
    "racing/test_racing_realtime.py*process*",
    "racing/test_record.py*",
    "racing/test_shipped_agents.py*exported*",
    "rollout/test_actor.py*",
    "rollout/test_onnx_export.py*",
    "security/*",
    "sim/test_compiling.py*",
    "sim/test_determinism.py*ten_million*",
    "sim/test_driver.py*",
    "sim/test_track_repair.py*",
    "test_benchmarks.py*",
    "test_browser.py*",
    "test_documentation*",
    "test_python_api.py*",
    "test_realtime_documentation.py*",
    "test_tutorials.py*",
    "tmrl/test_on_the_twin.py*",
    "workflows/test_*_experiments.py*",
    "workflows/test_accumulate.py*",
    "workflows/test_cloning.py*",
    "workflows/test_compile_resume.py*",
    "workflows/test_devices.py*",
    "workflows/test_dreamer.py*",
    "workflows/test_freeze.py*holds*",
    "workflows/test_iql.py*",
    "workflows/test_learning.py*",
    "workflows/test_off_policy_racing.py*",
    "workflows/test_ppo.py*",
    "workflows/test_ppo_memory.py*",
    "workflows/test_tdmpc.py*",
    "workflows/test_training_agent.py*training_agent*",
    "workflows/test_world_model_resume.py*",
    "workflows/test_world_models.py*",
)


@pytest.fixture
def paddock(tmp_path):
    """Run `paddock ARGUMENTS` in a folder of its own; gives the completed process."""

    def run(*arguments: str, timeout: float = 240, **environment: str) -> subprocess.CompletedProcess[str]:
        return warm_program().run(arguments, tmp_path, {**os.environ, "COLUMNS": "200", **environment}, timeout)

    return run


@pytest.fixture
def experiment(tmp_path):
    """Build a small CartPole run in this process; gives its orchestrator."""

    def make(*overrides: str, name: str = "run", user: Path | None = None):
        if user is not None:
            return quiet_run(tmp_path, None, *overrides, name=name, user=user)
        return quiet_run(tmp_path, "ppo_cartpole", *SMALL_CARTPOLE, *overrides, name=name)

    return make


def pytest_collection_modifyitems(items) -> None:
    """Tests that need a browser can be chosen, `pytest -m browser`; slow ones left out, `pytest -m "not slow"`."""
    for item in items:
        used = set(getattr(item, "fixturenames", ()))
        if {"browser", "pages"} & used:
            item.add_marker("browser")
        name = item.nodeid.removeprefix("tests/")
        if SLOW_FIXTURES & used or any(fnmatch(name, pattern) for pattern in SLOW_TESTS):
            item.add_marker("slow")


@pytest.fixture(scope="session")
def chromium_program() -> str:
    """Chromium's program. Fixtures that a page is opened with ask for it first: without one nothing is started."""
    from browser import chromium

    return chromium()


@pytest.fixture
def browser(chromium_program):
    """A real headless Chromium with one page: see tests/browser.py."""
    from browser import Browser

    opened = Browser()
    yield opened
    opened.close()


@pytest.fixture(scope="session")
def real_runs(tmp_path_factory) -> Path:
    """A runs folder with two recipes of two seeds each, made once by the command line; not to be changed."""
    folder = tmp_path_factory.getbasetemp().parent / "real_runs"
    folder.mkdir(exist_ok=True)
    options = [
        "training.total_steps=1536", "evaluation.episodes=3", "logging.every_steps=256", "logging.tensorboard=false",
        "checkpoint.every_steps=512", "checkpoint.keep_last=4",
        "training.phases=[{name: train, buffer: rollout, workflow_hooks: [{collect: {steps: 512}}, update,"
        " {evaluate: {every_steps: 512}}]}]",
    ]  # fmt: skip
    recipes = {"fast": [], "slow": ["optimizers.main.learning_rate=1e-5", "workflow.clip_ratio=0.1"]}
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # The other workers wait for the first one.
        if not (folder / "made").exists():
            for name, more in recipes.items():
                command = ["train", "ppo_cartpole", "--name", name, "--seed", "1,2", *options, *more]
                warm_program().run(tuple(command), folder, dict(os.environ), timeout=240).check_returncode()
            (folder / "made").touch()
    return folder / "runs"


@pytest.fixture
def prepared(tmp_path):
    """Build any shipped experiment with overrides, quietly, in this process; gives its orchestrator."""

    def make(name, *overrides, run="run"):
        return quiet_run(tmp_path, name, *overrides, name=run)

    return make
