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
    noise, alpha = torch.randn(8, 1), workflow.temperature().detach()
    with torch.no_grad():
        action, log_prob = workflow.policy(sample["next_observation"]).sample_with_log_prob(noise)
        each = workflow.target_critics(sample["next_observation"], action, torch.arange(5))
        values = workflow.critics(sample["observation"], sample["action"])
    for chosen in ([3, 1], [3, 4], [0, 4]):
        metrics, gradients = workflow._critic_gradients(sample, noise, torch.tensor(chosen))
        assert len(gradients) == len(list(workflow.critics.parameters()))
        least = [min(each[critic, row].item() for critic in chosen) for row in range(8)]
        target = [value - alpha.item() * log_prob[row].item() for row, value in enumerate(least)]
        squares = [0.5 * (values[critic, row].item() - target[row]) ** 2 for critic in range(5) for row in range(8)]
        assert metrics["train/critic_loss"].item() == pytest.approx(sum(squares) / 40, rel=1e-4)


def test_a_subset_larger_than_the_ensemble_is_refused(prepared):
    with pytest.raises(InputError, match="cannot be drawn from"):
        prepared("redq_pendulum", *TINY, "workflow.subset=6")
