"""Behaviour cloning and diffusion policy: their losses and schedule, a tiny task that they learn, exact resume."""

import math

import pytest
import torch
from rich.console import Console
from test_world_model_resume import state_of

from interruption import stop_after
from paddock.components.generators.protocol import Lesson
from paddock.core.errors import InputError
from paddock.orchestration.launch import resumed_run
from paddock.workflows.behaviour_cloning import regression_loss
from paddock.workflows.diffusion_policy import denoising_loss
from paddock.workflows.imitation import learning_rate_fraction

TINY = (
    "components.policy.network.width=64",
    "components.policy.network.blocks=2",
    "buffers.demonstrations.demonstrator.episodes=60",
    "buffers.demonstrations.batch_size=128",
    "evaluation.episodes=100",
    "training.phases.clone.workflow_hooks.validate.every_updates=100",
    "logging.tensorboard=false",
)
FASTER = (
    "workflow.warmup_updates=50",
    "optimizers.policy.learning_rate=3e-3",
)


def test_regression_loss_counts_only_marked_steps():
    predicted, actions = torch.randn(3, 4, 2), torch.randn(3, 4, 2)
    counted = torch.tensor([[1, 1, 0, 0], [1, 1, 1, 1], [0, 1, 0, 0]]).bool()
    errors = [
        float(predicted[b, t, a] - actions[b, t, a])
        for b in range(3)
        for t in range(4)
        if counted[b, t]
        for a in (0, 1)
    ]
    squared, absolute = (sum(one) / len(errors) for one in ([e * e for e in errors], [abs(e) for e in errors]))
    assert float(regression_loss(predicted, actions, counted, "mse")) == pytest.approx(squared, rel=1e-5)
    assert float(regression_loss(predicted, actions, counted, "l1")) == pytest.approx(absolute, rel=1e-5)
    lesson = Lesson(torch.zeros(3, 4, 2), torch.zeros(3), actions)
    assert float(denoising_loss(predicted, lesson, counted)) == pytest.approx(squared, rel=1e-5)


def test_learning_rate_of_cloning_warms_up_and_falls_as_a_cosine():
    assert learning_rate_fraction(0, 10, 100) == 0.1
    assert learning_rate_fraction(9, 10, 100) == 1.0
    assert learning_rate_fraction(55, 10, 100) == pytest.approx(0.5)
    assert learning_rate_fraction(32, 10, 100) == pytest.approx(0.5 + 0.5 * math.cos(math.pi * 22 / 90))
    assert learning_rate_fraction(100, 10, 100) == pytest.approx(0.0)
    assert learning_rate_fraction(5_000, 10, None) == 1.0


def test_behaviour_cloning_learns_one_way_and_not_two(prepared):
    """Regression does the mean of two ways, which leads into the disc; with one way shown it arrives."""
    options = [*TINY, *FASTER, "workflow.updates=300"]
    both = prepared("bc_two_ways", *options, run="both").run()
    assert both.latest["eval/success"] <= 0.25
    demonstrator = "buffers.demonstrations.demonstrator.sides=[above]"
    one = prepared("bc_two_ways", *options, demonstrator, run="one").run()
    assert one.latest["eval/success"] >= 0.95
    assert one.latest["eval/largest_way_share"] == 1.0


def test_flow_policy_learns_both_ways(prepared):
    outcome = prepared("flow_two_ways", *TINY, *FASTER, "workflow.updates=800").run()
    assert outcome.latest["eval/success"] >= 0.75
    assert outcome.latest["eval/way_entropy"] >= 0.8
    assert outcome.latest["train/validation_action_error"] < 0.3


SMALL = (
    "components.policy.network.width=16",
    "buffers.demonstrations.demonstrator.episodes=10",
    "buffers.demonstrations.batch_size=8",
    "evaluation.episodes=4",
    "workflow.updates=12",
    "logging.every_updates=3",
    "training.phases.clone.workflow_hooks.validate.every_updates=5",
    "training.phases.clone.workflow_hooks.evaluate.every_updates=6",
)
KINDS = {
    "bc_two_ways": [],
    "flow_two_ways": ["components.policy.prefix=3", "controllers.available.policy.commit=2"],
    "ddpm_two_ways": ["components.policy.generator.noise_steps=5"],
}


@pytest.mark.parametrize("name", KINDS)
def test_resumed_cloning_is_bit_identical(prepared, name):
    options = [*SMALL, *KINDS[name]]
    whole = prepared(name, *options, run="whole")
    assert whole.run().status == "finished"
    torch.manual_seed(99)  # Nothing of the outside may matter.
    broken = prepared(name, *options, run="broken")
    stop_after(broken, 8)
    assert 0 < broken.counters.updates < 12
    with resumed_run(broken.run_folder, [], Console(quiet=True)) as resumed:
        assert resumed.run().status == "finished"
    assert state_of(whole) == state_of(resumed)

    def rows(orchestrator):
        metrics = orchestrator.run_folder.read_metrics()
        return [
            {key: value for key, value in row.items() if "second" not in key and "system" not in key} for row in metrics
        ]

    assert rows(whole) == rows(resumed)
    assert any("train/validation_action_error" in row for row in rows(whole))


DAGGER = (
    "environment.track=oval",
    "environment.num_envs=2",
    "environment.max_episode_steps=20",
    "components.policy.network.width=16",
    "components.policy.network.blocks=1",
    "buffers.demonstrations.demonstrator.laps=1",
    "buffers.demonstrations.batch_size=8",
    "buffers.demonstrations.segment_steps=32",
    "training.phases.clone.duration_updates=3",
    "training.phases.correct.duration_steps=128",
    "training.phases.clone.workflow_hooks.evaluate=null",
    "training.phases.correct.workflow_hooks.evaluate=null",
    "evaluation.episodes=1",
    "logging.tensorboard=false",
)


def test_resumed_dagger_is_bit_identical(prepared):
    """Stopped among steps that teacher and policy drive by turns, in the middle of episodes and of chunks."""
    options = [*DAGGER, "controllers.available.policy.execute=3"]
    whole = prepared("bc_dagger_racing", *options, run="whole")
    assert whole.run().status == "finished"
    torch.manual_seed(99)  # Nothing of the outside may matter.
    broken = prepared("bc_dagger_racing", *options, run="broken")
    stop_after(broken, 16)
    assert 0 < broken.counters.agent_steps < whole.counters.agent_steps
    with resumed_run(broken.run_folder, [], Console(quiet=True)) as resumed:
        assert resumed.run().status == "finished"
    assert repr(state_of(whole)) == repr(state_of(resumed))  # Laps that are not driven yet are not a number.


@pytest.mark.parametrize("preset", ["unet_small", "chunk_transformer", "ddim"])
def test_presets_of_diffusion_policy_learn_and_act(prepared, preset):
    small = {
        "unet_small": ["components.policy.network.channels=[8,16]"],
        "chunk_transformer": ["components.policy.network.width=16", "components.policy.network.layers=1"],
        "ddim": ["components.policy.network.width=16", "components.policy.generator.steps=3"],
    }[preset]
    options = [one for one in SMALL if "width" not in one]
    outcome = prepared("flow_two_ways", f"preset={preset}", *small, *options).run()
    assert outcome.counters.updates == 12
    assert math.isfinite(outcome.latest["eval/success"])


def test_workflows_that_clone_refuse_the_other_ones_generator(prepared):
    with pytest.raises(InputError, match="needs the generator Regression"):
        prepared("bc_two_ways", *SMALL, "workflow=behaviour_cloning", "preset=ddpm")
    with pytest.raises(InputError, match="choose workflow=behaviour_cloning"):
        prepared("flow_two_ways", *SMALL, "generator@components.policy.generator=regression")
