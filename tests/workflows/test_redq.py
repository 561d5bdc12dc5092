import pytest
import torch

import tiny_tasks  # noqa: F401 - registers the task
from paddock.core.errors import InputError

TINY = [
    "environment.id=Reach-v0",
    "environment.num_envs=4",
    "components.policy.network.hidden=[32, 32]",
    "components.critics.hidden=[32, 32]",
    "components.critics.ensemble_size=5",
    "components.temperature.initial=0.05",
    "buffers.replay.batch_size=32",
    "evaluation.episodes=20",
    "training.phases.seed.duration_steps=200",
    "training.total_steps=2_000",
]


def test_redq_learns_to_reach_within_few_steps(prepared):
    """From about -8 for random actions to nearly the best there is, in a fraction of the steps that SAC is given."""
    updates = "{update_critics: {ratio: 2}}, {update_policy: {ratio: 0.5}}"
    hooks = f"[{{collect: {{steps: 4}}}}, {updates}, {{evaluate: {{every_steps: 200}}}}]"
    outcome = prepared(
        "redq_pendulum",
        *TINY,
        f"training.phases.joint.workflow_hooks={hooks}",
        "training.phases.joint.until='eval/return >= -1.3'",
    ).run()
    assert outcome.latest["eval/return"] >= -1.3
    assert outcome.counters.updates > outcome.counters.agent_steps


def test_the_target_is_the_least_of_the_drawn_critics(prepared):
    orchestrator = prepared("redq_pendulum", *TINY)
    workflow = orchestrator.workflow
    with torch.no_grad():
        workflow.target_critics.network.head.bias.copy_(torch.arange(5.0).view(5, 1, 1) * 10)
    sample = {
        "observation": {"observation": torch.randn(8, 2)},
        "next_observation": {"observation": torch.randn(8, 2)},
        "action": torch.rand(8, 1),
        "reward": torch.zeros(8),
        "bootstrap": torch.ones(8),
    }
    losses = []
    for chosen in ([3, 1], [3, 4], [0, 4]):
        metrics, gradients = workflow._critic_gradients(sample, torch.zeros(8, 1), torch.tensor(chosen))
        losses.append(metrics["train/critic_loss"].item())
        assert len(gradients) == len(list(workflow.critics.parameters()))
    # The targets are about 10, 30 and 0; all critics are about 0, so that half of the squares is what remains.
    assert losses == pytest.approx([50, 450, 0], abs=30)


def test_a_subset_larger_than_the_ensemble_is_refused(prepared):
    with pytest.raises(InputError, match="cannot be drawn from"):
        prepared("redq_pendulum", *TINY, "workflow.subset=6")
