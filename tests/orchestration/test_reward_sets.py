"""`paddock train EXPERIMENT reward=X` trains with the reward set X and nothing else, whatever X and the experiment."""

import pytest
from hydra import compose as hydra_compose
from hydra import initialize_config_dir
from omegaconf import OmegaConf
from rich.console import Console

from paddock.config.compose import SHIPPED, choices
from paddock.core.errors import InputError
from paddock.experiments.run import RunFolder
from paddock.orchestration.launch import Request, new_run, resolve, resumed_run
from paddock.racing.env.rewards import RewardConfig, reward_config

SETS = sorted(choices("reward"))
RACING = sorted(
    name
    for name, file in choices("experiment").items()
    if "override /environment: racing" in (text := file.read_text()) or "\n  - racing\n" in text
)
OWN = {  # by experiment, where it is not `racing`
    "baseline": "baseline",
    "time_optimal": "time_optimal",
    "racing_line": "racing_line",
    "racing_obstacles": "racing_obstacles",
    "racing_camera": "racing_camera",
    "racing_multi_track": "racing_multi_track",
    "racing": "racing_clean",
    "dreamer_racing": "racing_careful",
    **dict.fromkeys(("sac_racing", "redq_racing", "dqn_racing", "iqn_racing"), "racing_careful"),
    "dreamer_racing_camera": "racing_dreamer",
    "latent_actor_racing": "racing_careful",
    "planet_racing": "racing_planning",
    "tdmpc2_racing": "racing_planning",
    "world_models_mini": "world_models",
    "world_models_racing_camera": "world_models",
}
TINY = [
    "environment.num_envs=8",
    "environment.track=oval",
    "environment.procedural=0",
    "environment.observation=course",
    "workflow.rollout_steps=64",
    "workflow.minibatch_size=64",
    "workflow.epochs=1",
    "evaluation.evaluator=null",
    "evaluation.episodes=1",
    "logging.terminal=false",
    "logging.tensorboard=false",
]

SHORT = ["environment.max_episode_steps=10", "training.total_steps=256"]


def reward_of(experiment, *overrides, user=None):
    """What the environment of a run pays for, and the weights that each phase changes."""
    config, _ = resolve(Request(experiment, user=user, overrides=overrides))
    return config.environment.reward, {
        phase.name: config.reweighing(phase) for phase in config.training.phases.values()
    }


def set_named(name):
    return RewardConfig() if name == "none" else RewardConfig.model_validate(reward_config(name))


def test_all_racing_experiments_are_looked_at():
    assert len(RACING) >= 18
    assert OWN.keys() <= set(RACING)
    in_place = [name for name in RACING if "\nreward:" in choices("experiment")[name].read_text()]
    assert in_place == [], "weights written into an experiment would be added to whatever reward set is chosen"


@pytest.mark.parametrize("experiment", RACING)
def test_a_reward_set_replaces_that_of_every_racing_experiment(experiment):
    """Composed by Hydra alone: 200 compositions with the origin of every value would take minutes."""
    with initialize_config_dir(str(SHIPPED), version_base="1.3"):
        for name in (None, *SETS):
            chosen = [f"reward={name}"] if name else []
            values = hydra_compose("config", [f"experiment={experiment}", *chosen])
            reward = OmegaConf.to_container(values.environment, resolve=True)["reward"]
            expected = set_named(name or OWN.get(experiment, "racing"))
            assert RewardConfig.model_validate(reward or {}) == expected, name
            phases = {key: phase.get("reward") for key, phase in values.training.phases.items() if phase}
            learns_by_ppo = values.workflow._target_ == "paddock.workflows.ppo.PPO"
            is_clean = learns_by_ppo and (name or OWN.get(experiment)) == "racing_clean"
            curriculum = {"clean": {"wheels_off": 20.0}} if is_clean else {}
            assert {key: weights for key, weights in phases.items() if weights} == curriculum, name


@pytest.mark.parametrize("name", ["racing", "racing_camera", "racing_multi_track"])
def test_racing_reward_time_optimal_is_only_the_clock_in_every_phase(name):
    reward, phases = reward_of(name, "reward=time_optimal")
    assert reward == RewardConfig.model_validate(reward_config("time_optimal"))
    assert reward.apex.weight == reward.speed_for_curvature.weight == 0.0
    assert reward.time_pressure.weight > 0.0
    assert not any(phases.values())


@pytest.mark.parametrize(
    ("experiment", "reward", "discount"),
    [
        ("racing", None, 0.98),
        ("racing", "baseline", 0.99),
        ("time_optimal", None, 0.99),
        ("time_optimal", "racing", 0.98),
        ("sac_racing", None, 0.98),
        ("dqn_racing", "time_optimal", 0.99),
    ],
)
def test_a_reward_set_says_how_far_ahead_it_has_to_be_seen(experiment, reward, discount):
    chosen = [f"reward={reward}"] if reward else []
    assert resolve(Request(experiment, overrides=chosen))[0].workflow.gamma == discount
    own = resolve(Request(experiment, overrides=[*chosen, "workflow.gamma=0.9"]))[0]
    assert own.workflow.gamma == 0.9, "what is said on the command line counts"


@pytest.mark.parametrize("name", ["baseline", "time_optimal", "racing_line"])
def test_racing_with_a_reward_set_is_the_experiment_of_that_name(name):
    chosen, named = (
        resolve(Request(experiment, name="run", overrides=overrides))[0].model_dump()
        for experiment, overrides in (("racing", [f"reward={name}"]), (name, []))
    )
    assert chosen == named


def test_a_reward_set_of_ones_own_pays_for_what_it_says_alone(tmp_path):
    (tmp_path / "reward").mkdir()
    (tmp_path / "reward" / "slide.yaml").write_text("progress: {weight: 0.3}\nends: {off_track: true}\n")
    for experiment in ("racing", "racing_obstacles", "dreamer_racing"):
        reward, _ = reward_of(experiment, "reward=slide", user=tmp_path)
        assert reward == RewardConfig.model_validate({"progress": {"weight": 0.3}, "ends": {"off_track": True}})


def test_a_deepracer_reward_pays_for_its_function_alone(tmp_path):
    (tmp_path / "reward").mkdir()
    file = tmp_path / "reward_function.py"
    file.write_text("def reward_function(params):\n    return 2.0\n")
    (tmp_path / "reward" / "deepracer.yaml").write_text(
        f"custom:\n  deepracer: {{function: '{file}:reward_function'}}\nends: {{off_track: true}}\n"
    )
    request = Request(
        "racing",
        user=tmp_path,
        overrides=["reward=deepracer", *TINY, f"runs_dir={tmp_path / 'runs'}", *SHORT],
    )
    config, _ = resolve(request)
    assert config.environment.reward.ends.off_track
    assert paid_terms(config) == {"deepracer"}


def test_a_function_in_a_file_is_a_reward_on_the_command_line(tmp_path, monkeypatch):
    folder = tmp_path / "it's mine, all of it"
    folder.mkdir()
    (folder / "my_rewards.py").write_text("def slide(car):\n    return car['progress_gain'] + 0.1 * abs(car['vy'])\n")
    tiny = [*TINY, f"runs_dir={tmp_path / 'runs'}", *SHORT]
    by_path = resolve(Request("racing", overrides=[f"reward={folder}/my_rewards.py:slide", *tiny]))[0]
    assert by_path.environment.reward == RewardConfig.model_validate(reward_config(f"{folder}/my_rewards.py:slide"))

    monkeypatch.chdir(folder)
    given = ["reward=my_rewards.py:slide", "reward.ends.off_track=true", *tiny]
    config, composed = resolve(Request("racing", overrides=given))
    assert config.environment.reward.ends.off_track
    assert composed.origins["reward.custom.slide.function"] == "command line"
    assert paid_terms(config) == {"slide"}
    with pytest.raises(InputError, match=r"reward=path/to/file\.py:function_name"):
        resolve(Request("racing", overrides=["reward=my_rewards.py:"]))


def paid_terms(config):
    """Train for some episodes; the names of the terms that have a weight and paid."""
    with new_run(config, Console(quiet=True)) as orchestrator:
        orchestrator.run()
        weights = orchestrator.context.experience.reward_weights
        rows = orchestrator.run_folder.read_metrics()
    prefix = "collect/reward_terms/"
    paid = {key.removeprefix(prefix) for row in rows for key, value in row.items() if key.startswith(prefix) and value}
    weighted = {name for name, weight in weights.items() if weight}
    assert paid == weighted
    return weighted


def test_a_reward_set_changes_weights_as_a_phase_begins(tmp_path):
    overrides = [*TINY, f"runs_dir={tmp_path}", "environment.max_episode_steps=50", "training.max_seconds=null"]
    hooks = "workflow_hooks: [{collect: {steps: 64}}, update]"
    phases = (
        f"training.phases=[{{name: drive, buffer: rollout, duration_steps: 128, {hooks}}}, "
        f"{{name: clean, buffer: rollout, {hooks}}}]"
    )
    request = Request("racing_multi_track", name="two", overrides=[*overrides, phases, "training.total_steps=128"])
    config, _ = resolve(request)
    with new_run(config, Console(quiet=True)) as orchestrator:
        orchestrator.run()
        weights = orchestrator.context.experience.reward_weights
        assert (weights["wheels_off"], weights["failure"]) == (2.0, 0.0)
    run = RunFolder.find(tmp_path, "two")
    with resumed_run(run, ["training.total_steps=256"], Console(quiet=True)) as orchestrator:
        orchestrator.run()
        weights = orchestrator.context.experience.reward_weights
        assert (weights["wheels_off"], weights["failure"]) == (20.0, 30.0)


def test_a_reward_set_made_for_phases_is_refused_where_they_are_not():
    with pytest.raises(InputError, match=r"changes weights in the phase 'clean', which is not there.*phases: train"):
        resolve(Request("racing", overrides=["reward=racing_camera"]))


def test_a_reward_set_cannot_change_a_term_that_it_does_not_have(tmp_path):
    (tmp_path / "reward").mkdir()
    (tmp_path / "reward" / "mine.yaml").write_text("progress: {weight: 0.1}\nphases: {train: {apex: 1.0}}\n")
    with pytest.raises(InputError, match="reward term 'apex', which is not there"):
        resolve(Request("racing", user=tmp_path, overrides=["reward=mine"]))


def test_a_phase_reweighs_a_function_of_ones_own(tmp_path):
    (tmp_path / "reward").mkdir()
    file = tmp_path / "mine.py"
    file.write_text("def slide(car):\n    return 1.0\n")
    (tmp_path / "reward" / "mine.yaml").write_text(
        f"custom: {{slide: {{function: '{file}:slide'}}}}\nphases: {{train: {{slide: 0.5}}}}\n"
    )
    _, phases = reward_of("racing", "reward=mine", user=tmp_path)
    assert phases == {"train": {"slide": 0.5}}
