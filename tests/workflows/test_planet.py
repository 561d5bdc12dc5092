"""PlaNet learns by planning alone, and what it saves plans wherever it is loaded."""

import pytest
import torch

import tiny_tasks  # noqa: F401 - registers the tasks
from paddock.core.errors import PaddockError
from paddock.evaluation.evaluator import evaluate
from paddock.rollout.actor import load_policy
from paddock.rollout.model_actors import PlanningActor

TINY = [
    "environment=gym",
    "workflow=planet",
    "environment.id=Reach-v0",
    "environment.num_envs=4",
    "components.world_model.rssm.deter=32",
    "components.world_model.rssm.hidden=32",
    "components.world_model.rssm.groups=6",
    *[f"components.world_model.{part}.units=32" for part in ("encoder", "decoder", "reward", "continue")],
    *[f"components.world_model.{part}.layers=1" for part in ("encoder", "decoder", "reward")],
    "controllers.available.cem.planner={horizon: 4, candidates: 60, iterations: 3, elites: 6}",
    "buffers.replay.batch_size=32",
    "buffers.replay.length=8",
    "optimizers.world_model.learning_rate=5e-3",
    "workflow.free_nats=0.5",
    "workflow.scales.observation=10",
    "workflow.scales.reward=10",
    "evaluation.episodes=20",
    "evaluation.probes.world_model.episodes=4",
    "evaluation.probes.world_model.steps=25",
]
HOOKS = "[{collect: {steps: 4}}, {update: {ratio: 0.5}}, {evaluate: {every_steps: 200}}]"


def phases(until):
    return (
        "training.phases=[{name: seed, buffer: replay, controller: random, duration_steps: 400, "
        "workflow_hooks: [{collect: {steps: 4}}]}, {name: pretrain, type: offline, buffer: replay, "
        "duration_updates: 200, workflow_hooks: [update_world_model]}, "
        f"{{name: joint, buffer: replay, until: '{until}', workflow_hooks: {HOOKS}}}]"
    )


@pytest.mark.parametrize(("task", "best"), [("Reach-v0", -2.5), ("ReachByChoice-v0", -3.0)])
def test_planet_learns_to_reach(prepared, task, best):
    """From about -8 for random actions; -0.5 is the best there is, -1.3 with three choices."""
    changes = [f"environment.id={task}", phases(f"eval/return >= {best}"), "training.total_steps=1_600"]
    orchestrator = prepared(None, *TINY, *changes)
    outcome = orchestrator.run()
    assert outcome.latest["eval/return"] >= best
    assert 0 < outcome.latest["eval/model_observation_error"] < 1

    loaded = load_policy(orchestrator.run_folder.policy / "latest")
    assert isinstance(loaded, PlanningActor)
    options = {"episodes": 4, "seed": 5, "deterministic": True}
    scores = [
        evaluate(actor, orchestrator.make_eval_env, **options).returns.tolist()
        for actor in (loaded, orchestrator.workflow.actor())
    ]
    assert scores[0] == scores[1]


def test_a_nan_is_named_with_its_phase_and_the_batch_is_kept(prepared):
    orchestrator = prepared(None, *TINY, phases("eval/return >= 0"))
    with torch.no_grad():
        orchestrator.context.components["world_model"].rssm.seen.weight[0, 0] = torch.nan
    with pytest.raises(PaddockError, match="NaN or Inf in loss in phase 'pretrain', update_world_model"):
        orchestrator.run()
    assert list(orchestrator.run_folder.faults.glob("*/batch.safetensors"))


def test_phases_may_swap_controllers_within_an_episode(prepared):
    """Another controller remembers other things; whoever takes over begins anew, or goes on with what it knows."""
    hooks = "workflow_hooks: [{collect: {steps: 4}}]"
    chosen = [
        f"{{name: {name}, buffer: replay, controller: {name}, duration_steps: 12, {hooks}}}"
        for name in ("cem", "mppi", "random", "shooting")
    ]
    small = [
        f"controllers.available.{name}.planner.{option}=4"
        for name, options in {
            "mppi": ("horizon", "candidates", "elites"),
            "shooting": ("horizon", "candidates"),
        }.items()
        for option in options
    ]
    orchestrator = prepared(None, *TINY, *small, f"training.phases=[{', '.join(chosen)}]", "training.total_steps=48")
    assert orchestrator.run().counters.agent_steps == 48


def test_planet_plans_in_full_for_several_environments_at_once(prepared):
    """The preset with the paper's plans: one batched search for two environments."""
    orchestrator = prepared("planet_dmc_cartpole", "preset=planet_full_plans")
    controller = orchestrator.context.controllers["cem"]
    planner = controller.planner.config
    assert (planner.horizon, planner.candidates, planner.iterations, planner.elites) == (12, 1_000, 10, 100)
    shapes, score = [], controller.world_model.predict_reward
    controller.world_model.predict_reward = lambda latent: shapes.append(len(latent["deter"])) or score(latent)
    with torch.inference_mode():
        action, _ = controller.act({"observation": torch.randn(2, 5)}, None, deterministic=True)
    assert shapes == [2 * 1_000] * 12 * 10
    assert action.shape == (2, 1)
    assert action.abs().max() <= 1
