"""The shipped experiments of the latent actor and of PlaNet train for a moment, plan, and are judged."""

import pytest

HOOKS = "[{collect: {steps: 4}}, {update: {ratio: 0.1}}, {evaluate: {every_steps: 20}}]"
SMALL = [
    "environment.num_envs=2",
    "buffers.replay.capacity=500",
    "buffers.replay.batch_size=2",
    "buffers.replay.length=5",
    "training.total_steps=60",
    "training.phases=[{name: seed, buffer: replay, controller: random, duration_steps: 40, workflow_hooks: [{collect: "
    f"{{steps: 4}}}}]}}, {{name: joint, buffer: replay, workflow_hooks: {HOOKS}}}]",
    "evaluation.evaluator=null",
    "evaluation.episodes=1",
    "evaluation.probes.world_model={episodes: 1, steps: 8, context: 2, horizon: 3}",
    "controllers.available.cem.planner={horizon: 3, candidates: 4, iterations: 2, elites: 2}",
]
EXPERIMENTS = {
    "latent_actor_racing": ["environment.max_episode_steps=12"],
    "planet_racing": ["environment.max_episode_steps=12"],
    "planet_dmc_cartpole": ["environment.time_limit=0.5"],
}


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_shipped_experiment_trains(prepared, name):
    orchestrator = prepared(name, *SMALL, *EXPERIMENTS[name])
    before = {key: value.clone() for key, value in orchestrator.context.components["world_model"].state_dict().items()}
    outcome = orchestrator.run()
    assert outcome.counters.agent_steps == 60
    assert outcome.counters.updates >= 2
    assert outcome.latest["eval/model_observation_error_3"] > 0
    after = orchestrator.context.components["world_model"].state_dict()
    assert sum(bool((after[key] != value).any()) for key, value in before.items()) > len(before) / 2
