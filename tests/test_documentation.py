"""What the documentation tells its reader to write and type works as it stands there, in an empty folder. Only the
number of steps and episodes is lowered."""

import pytest

from documentation import run_command, run_script, section, write_files
from paddock.experiments.run import RunFolder

SHORT = ["training.total_steps=1024", "evaluation.episodes=2", "logging.tensorboard=false"]
SHORT_RACE = [*SHORT, "environment.num_envs=16", "workflow.rollout_steps=512", "workflow.minibatch_size=256"]


def test_an_algorithm_of_ones_own_trains_as_documented(tmp_path):
    page = section("docs/configuration.md", "## An algorithm of your own")
    assert set(page.files) == {"lab/predictor.py", "predictor.yaml"}
    write_files(page, tmp_path)
    (command,) = page.commands
    run_command(command, "logging.tensorboard=false", folder=tmp_path)
    run = RunFolder.find(tmp_path / "runs", "predictor")
    assert run.read_manifest()["status"] == "finished"
    assert run.read_metrics()[-1]["train/loss"] > 0
    assert [event["phase"] for event in run.read_events() if event["event"] == "phase"] == ["seed", "joint", "dream"]


def test_a_network_of_ones_own_trains_and_is_evaluated_as_documented(tmp_path):
    page = section("docs/networks.md", "## A network of your own")
    assert set(page.files) == {"lab/net.py", "wide.yaml"}
    write_files(page, tmp_path)
    for command in page.commands:
        more = SHORT if command.startswith("paddock train") else ["--episodes", "2"]
        run_command(command, *more, folder=tmp_path)
    by_command, by_file = [RunFolder(path).read_config() for path in sorted((tmp_path / "runs").glob("wide-*"))]
    assert by_command["components"]["policy"]["network"] == {"_target_": "lab.net.Wide", "width": 128}
    assert by_command["components"]["value"]["network"]["hidden"] == [64, 64]
    assert by_file["components"]["policy"]["network"] == {"_target_": "lab.net.Wide", "width": 128}
    assert by_file["components"]["value"]["network"] == {"_target_": "lab.net.Wide", "width": 256}


def test_a_reward_of_ones_own_trains_as_documented(tmp_path):
    page = section("docs/rewards.md", "## A function of your own")
    assert set(page.files) == {"my_rewards.py", "lab/reward/slide.yaml"}
    write_files(page, tmp_path)
    for command in page.commands:
        run_command(command, *SHORT_RACE, folder=tmp_path)
    runs = [RunFolder(path) for path in sorted((tmp_path / "runs").glob("racing-*"))]
    functions = [run.read_config()["environment"]["reward"]["custom"]["slide"]["function"] for run in runs]
    assert sorted(functions) == ["my_rewards.py:slide"] * 2 + ["my_rewards.py:slide_all"]
    for script in page.scripts:
        run_script(script + "cars.reset(seed=1)\ncars.step(cars.action_space.sample())\n", folder=tmp_path)


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    """A folder in which `make demo` has been: with a run named demo."""
    folder = tmp_path_factory.mktemp("demo")
    run_command("paddock train racing --name demo", *SHORT_RACE, folder=folder)
    return folder


@pytest.mark.parametrize(
    ("page", "heading"),
    [
        ("README.md", "## Next"),
        ("docs/python.md", "## Use a trained agent"),
        ("docs/python.md", "## Train"),
        ("docs/python.md", "## Environments"),
        ("docs/runs.md", "## Policies"),
    ],
)
def test_python_in_the_documentation_runs_as_it_stands(demo, page, heading):
    scripts = section(page, heading).scripts
    assert scripts
    (run,) = (demo / "runs").glob("demo-*")
    for script in scripts:
        few = script.replace("100_000", "1_024").replace("150_000", "2_048").replace("range(500)", "range(20)")
        run_script(few.replace("runs/NAME", f"runs/{run.name}"), folder=demo)
