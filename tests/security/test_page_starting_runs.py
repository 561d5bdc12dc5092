"""Runs that are started through the server set numbers and known words: nothing that names code, files or hosts."""

import pytest

from paddock.core.errors import InputError
from paddock.dashboard.overrides import check_overrides

REFUSED = [
    "+monitoring.alerts.x={when: 'train/entropy > -9', command: 'id > MARKER'}",
    "monitoring.alerts.x.command=id",
    "monitoring.alerts={x: {when: stalled, webhook: 'http://evil.example'}}",
    "+reward.custom.x={function: 'evil.py:f', weight: 0}",
    "reward.custom.x.function=evil",
    "environment.reward.custom.x.function=evil.py:f",
    "reward=evil.py:f",
    "reward=/tmp/evil",
    "environment.opponents.driver=evil.py:f",
    "environment.opponents={count: 1, driver: 'evil.py:f'}",
    "environment.id=evil:CartPole-v1",
    "environment.id=../evil",
    "environment.arguments.xml_file=evil",
    "environment={_target_: evil.make}",
    "environment._target_=evil.make",
    "components.policy._target_=os.system",
    "components.policy={_target_: os.system}",
    "evaluation.evaluator._target_=evil",
    "evaluation.judge._target_=evil",
    "evaluation.probes.x={_target_: evil}",
    "environment.track=/etc/passwd",
    "environment.track=evil.csv",
    "environment.track=[oval,/etc/passwd]",
    "buffers.rollout.folder=elsewhere",
    "buffers.replay.sources=[elsewhere]",
    "runs_dir=elsewhere",
    "logging.wandb=online",
    "logging.wandb_project=evil",
    "name=evil",
    "hydra.searchpath=[file:///tmp]",
    "hydra.run.dir=/tmp",
    "+network@components.policy.network=lstm",
    "network@components.policy.network=lstm",
    "++training.total_steps=5",
    "~monitoring",
    "~monitoring=null",
    "training.total_steps=${oc.env:HOME}",
    "training.total_steps=$HOME",
    "tags=[${oc.env:SECRET}]",
    "training.total_steps=choice(1,2)",
    "training.total_steps=1,2",
    "tags='quoted'",
    "tags=[[[1]]]",
    "training.phases=[{name: x}]",
    "workflow=../../tmp/evil",
    "workflow=null",
    "preset=/tmp/evil",
    "experiment=racing",
    "--config=/etc/passwd",
    "tags=a\nb",
    "tags=a\x00b",
    "tags=a b",
    "=5",
    "training.total_steps",
    5,
    None,
]
ALLOWED = [
    "training.max_seconds=120", "training.total_steps=1_000", "training.total_steps=null", "environment.track=oval",
    "environment.track=procedural:7", "environment.track=[oval,meadow]", "environment.procedural_width=[7.0, 15.0]",
    "workflow=sac", "reward=racing_line", "reward.progress.weight=0.25", "environment.reward.ends.laps=2",
    "environment=racing", "preset=smoke", "optimizers.main.learning_rate=1e-3", "components.policy.hidden=[64,64]",
    "components.policy.network.activation=silu", "environment.id=CartPole-v1", "environment.id=paddock/Recall-v0",
    "evaluation.metric=eval/pace", "evaluation.episodes=1", "seed=3", "threads=2", "device=cuda:1", "debug=true",
    "tags=[fast,wet-road]", "logging.every_steps=2000", "logging.tensorboard=false", "environment.sensing.noise=.5",
    "environment.discrete_steer=[-1.0, 0.0, 1.0]", "environment.num_envs=24", "buffers.replay.capacity=1000",
    "checkpoint.every_seconds=60", "environment.opponents.count=2", "environment.car=arcade",
]  # fmt: skip


@pytest.mark.parametrize("override", REFUSED, ids=str)
def test_an_override_that_names_code_files_or_hosts_is_refused(override):
    with pytest.raises(InputError) as refusal:
        check_overrides([override])
    key = str(override).lstrip("+~").partition("=")[0]
    assert key in str(refusal.value), "the refusal names the key"


@pytest.mark.parametrize("override", ALLOWED)
def test_numbers_and_known_words_are_taken(override):
    assert check_overrides([override]) == [override]


def test_a_typing_error_in_a_section_is_guessed():
    with pytest.raises(InputError, match="Did you mean 'training'"):
        check_overrides(["traning.total_steps=5"])


@pytest.mark.parametrize(
    "override",
    [
        "+monitoring.alerts.x={when: 'train/entropy > -9', command: 'touch MARKER'}",
        "+reward.custom.x={function: 'FOLDER/evil.py:f', weight: 0}",
        "environment.opponents.driver=FOLDER/evil.py:f",
        "environment.id=evil:CartPole-v1",
    ],
)
def test_the_server_refuses_them_from_its_owner_too(wall, override):
    """The attacks as they were carried out; a file that leaves a mark when it is imported lies where the server is."""
    marker = wall.folder / "MARKER"
    (wall.folder / "evil.py").write_text(f"open({str(marker)!r}, 'w').close()\ndef f(*given): return 0.0\n")
    values = {"experiment": "racing", "overrides": [override.replace("FOLDER", str(wall.folder))]}
    status, answer = wall.ask("/api/runs", values)
    assert (status, "command line" in answer["error"]) == (400, True), answer
    assert not marker.exists()
    assert not list(wall.folder.glob("runs/*"))
