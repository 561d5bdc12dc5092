"""What the documentation tells its reader to write and type works as it stands there, in an empty folder. Only the
number of steps and episodes is lowered. What it names exists: pages, files, Python names, options and metrics."""

import importlib
import re
from functools import cache
from pathlib import Path

import pytest

from documentation import ROOT, run_command, run_script, section, write_files
from paddock.config.compose import choices
from paddock.config.renamed import METRICS
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
    assert [event["phase"] for event in run.read_events() if event["event"] == "phase"] == ["seed", "joint", "study"]


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


def test_tmrl_classes_of_ones_own_train_as_documented(tmp_path):
    page = section("docs/tmrl.md", "## Classes of your own")
    assert set(page.files) == {"my_agents.py"}
    write_files(page, tmp_path)
    (command,) = [one for one in page.commands if "--plugin" in one]
    short = ["evaluation.episodes=1", "logging.tensorboard=false", "training.phases.seed.duration_steps=300"]
    run_command(command, *short, "training.total_steps=400", folder=tmp_path)
    run = RunFolder.find(tmp_path / "runs", "training_agent_pendulum")
    assert run.read_manifest()["status"] == "finished"
    assert "train/loss_actor" in run.read_metrics()[-1]


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


PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
PLACES = [ROOT, ROOT / "src/paddock", ROOT / "src/paddock/config/yaml"]  # that paths in the documentation begin at
FOLDERS = "src|tests|benchmarks|docs|config|tuning|workflow|planning|" + "|".join(
    path.name for path in (ROOT / "src/paddock").iterdir() if path.is_dir()
)
SECTIONS = (
    "buffers|checkpoint|components|controllers|environment|evaluation|logging|monitoring|optimizers|training|workflow"
)
METRIC_AFFIXES = re.compile(r"^model_|(_loss|_error|_gradient_norm)(_\d+)?$")  # that code puts around a loss's name
OLD_OPTIONS = {"workflow.clip", "workflow.discount"}  # named as what they were called before


@cache
def page_text(page: Path) -> str:
    return page.read_text(encoding="utf-8")


@cache
def code() -> str:
    """All of the package's code and YAML."""
    files = [path for ending in ("py", "yaml", "js") for path in (ROOT / "src").rglob(f"*.{ending}")]
    return "\n".join(path.read_text(encoding="utf-8") for path in sorted(files))


@cache
def option_words() -> set[str]:
    """Every word that is a key in YAML or a field of a class, and so may be part of an option's dotted key."""
    return set(re.findall(r"(?:^|[\s{,])(\w+):", code()))


def prose(page: Path) -> str:
    """A page without its blocks of code."""
    return re.sub(r"^```.*?^```$", "", page_text(page), flags=re.MULTILINE | re.DOTALL)


def inline_code(page: Path) -> list[str]:
    """What stands between backticks in the sentences and tables of a page."""
    return re.findall(r"`([^`\n]+)`", prose(page))


def anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", page_text(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading).strip().lower().replace(" ", "-") for heading in headings}


def is_python_name(dotted: str) -> bool:
    parts = dotted.split(".")
    for count in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:count]))
        except ModuleNotFoundError:
            continue
        for part in parts[count:]:
            if not hasattr(found, part):
                return False
            found = getattr(found, part)
        return True
    return False


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_of_the_documentation_lead_somewhere(page):
    for target in re.findall(r"\]\((?!https?:)([^)\s]+)\)", prose(page)):
        path, _, anchor = target.partition("#")
        linked = page.parent / path if path else page
        assert linked.exists(), target
        assert not anchor or anchor in anchors(linked), target


def test_every_shipped_experiment_has_one_row_with_its_measurement():
    page = ROOT / "docs/results/experiments.md"
    rows = re.findall(r"^\|(.+)\|$", re.sub(r"^\| experiment \|.*\n\|[-|]+$", "", page_text(page), flags=re.M), re.M)
    cells = [[cell.strip() for cell in row.split("|")] for row in rows]
    assert [row for row in cells if len(row) != 3 or not row[1]] == []
    assert sorted(name for name, _, _ in cells) == sorted(f"`{name}`" for name in choices("experiment"))
    for name, _, where in cells:
        targets = re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", where)
        assert targets, name
        assert all((page.parent / target).is_file() for target in targets), where


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_files_and_python_names_in_the_documentation_exist(page):
    for text in inline_code(page):
        for path in re.findall(rf"(?<![\w/])(?:{FOLDERS})/[\w./*-]+\.(?:py|yaml|js|json)\b", text):
            assert any(list(place.glob(path)) for place in PLACES), path
    for name in set(re.findall(r"(?<![\w./$])paddock(?:\.\w+)+(?![\w/]|\.\.)", page_text(page))):
        assert is_python_name(name), name


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_options_and_metrics_in_the_documentation_exist(page):
    for text in inline_code(page):
        for option in re.findall(rf"(?<![\w./])(?:config\.)?((?:{SECTIONS})(?:\.(?!json\b)\w+)+)", text):
            missing = [word for word in option.split(".") if word not in option_words() and word.islower()]
            assert not missing or option in OLD_OPTIONS, (option, missing)
        for metric in re.findall(r"(?<![\w./])(?:collect|train|controller|eval|system)/[a-z]\w*", text):
            assert metric not in METRICS or page.name == "glossary.md", f"{metric} is now {METRICS[metric]}"
            name = METRIC_AFFIXES.sub("", metric.rpartition("/")[2])
            assert all(piece.strip("_") in code() for piece in re.split(r"\d+", name)), metric
