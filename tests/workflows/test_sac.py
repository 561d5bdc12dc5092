import pytest
import torch

import tiny_tasks  # noqa: F401 - registers the task
from paddock.rollout.result import CollectResult
from paddock.workflows.sac import critic_loss, policy_loss, soft_target

TINY = [
    "environment.id=Reach-v0",
    "environment.num_envs=4",
    "components.policy.network.hidden=[32, 32]",
    "components.critics.hidden=[32, 32]",
    "buffers.replay.batch_size=64",
    "evaluation.episodes=20",
]


def phases(seed, ratio, until="eval/return >= -1.3"):
    hooks = f"[{{collect: {{steps: 4}}}}, {{update: {{ratio: {ratio}}}}}, {{evaluate: {{every_steps: 400}}}}]"
    return (
        f"training.phases=[{{name: seed, buffer: replay, controller: random, duration_steps: {seed}, "
        f"workflow_hooks: [{{collect: {{steps: 4}}}}]}}, "
        f"{{name: joint, buffer: replay, until: '{until}', workflow_hooks: {hooks}}}]"
    )


@pytest.mark.parametrize("temperature", ["learned=true", "learned=false"])
def test_sac_learns_to_reach(prepared, temperature):
    """From about -8 for random actions to nearly the best there is."""
    outcome = prepared(
        "sac_pendulum",
        *TINY,
        f"components.temperature.{temperature}",
        "components.temperature.initial=0.05",
        phases(200, 0.5),
        "training.total_steps=6_000",
    ).run()
    assert outcome.latest["eval/return"] >= -1.3


def test_normaliser_learns_nothing_while_nothing_has_arrived(prepared, monkeypatch):
    """Workers elsewhere may not have sent a step yet."""
    orchestrator = prepared("sac_pendulum", *TINY, "components.observation_normalizer.enabled=true")
    workflow, phase = orchestrator.workflow, orchestrator.config.training.phases["joint"]
    monkeypatch.setattr(orchestrator.context.experience, "collect", lambda *_: CollectResult(0, 0))
    assert workflow.collect_step(4, phase=phase).steps == 0


def test_the_target_bootstraps_through_truncation_but_not_termination():
    sample = {"reward": torch.tensor([1.0, 1.0]), "bootstrap": torch.tensor([0.0, 0.9])}
    target = soft_target(sample, torch.tensor([10.0, 10.0]), torch.tensor([-2.0, -2.0]), torch.tensor(0.5))
    assert target.tolist() == pytest.approx([1.0, 1 + 0.9 * 11])


def test_the_critics_learn_each_for_itself():
    values = torch.randn(3, 16, requires_grad=True)
    target = torch.randn(16)
    (together,) = torch.autograd.grad(critic_loss(values, target), values)
    for index in range(3):
        alone = values[index : index + 1].detach().requires_grad_()
        (gradient,) = torch.autograd.grad(critic_loss(alone, target), alone)
        assert torch.equal(gradient[0], together[index])


def test_the_policy_is_paid_for_value_and_for_entropy():
    log_prob, value = torch.tensor([1.0, 3.0]), torch.tensor([5.0, 7.0])
    assert policy_loss(log_prob, value, torch.tensor(0.1)).item() == pytest.approx(0.2 - 6.0)


def test_an_update_moves_what_it_should_and_nothing_else(prepared):
    orchestrator = prepared("sac_pendulum", *TINY)
    workflow, context = orchestrator.workflow, orchestrator.context
    context.controllers.select("random")
    phase = orchestrator.config.training.phases["joint"]
    workflow.collect_step(256, phase=phase)

    def state(name):
        return {key: value.clone() for key, value in context.components[name].state_dict().items()}

    names = ("policy", "critics", "target_critics", "temperature")
    before = {name: state(name) for name in names}
    context.components["policy"].requires_grad_(False)
    workflow.update(context.buffers["replay"].sample(), phase=phase)
    after = {name: state(name) for name in names}
    for key, value in after["target_critics"].items():
        expected = torch.lerp(before["target_critics"][key], after["critics"][key], 0.005)
        assert torch.allclose(value, expected, atol=1e-7)
        assert not torch.equal(after["critics"][key], before["critics"][key])
    for name in ("policy", "temperature"):
        assert all(torch.equal(before[name][key], after[name][key]) for key in before[name])
    context.components["policy"].requires_grad_(True)
    metrics = workflow.update(context.buffers["replay"].sample(), phase=phase)
    assert not torch.equal(state("policy")["head.weight"], before["policy"]["head.weight"])
    assert not torch.equal(state("temperature")["log"], before["temperature"]["log"])
    assert {"train/entropy", "train/temperature", "train/value", "train/critic_loss"} <= metrics.keys()
    batch = context.buffers["replay"].sample()
    workflow.update_critics(batch, phase=phase)
    gradients = [parameter.grad.clone() for parameter in context.components["critics"].parameters()]
    workflow.update_policy(batch, phase=phase)
    left = [parameter.grad for parameter in context.components["critics"].parameters()]
    assert all(torch.equal(old, new) for old, new in zip(gradients, left, strict=True)), "the policy's loss leaves none"


def test_the_temperature_rises_while_there_is_too_little_entropy(prepared):
    from paddock.workflows.sac import adjust_temperature

    context = prepared("sac_pendulum", *TINY, "components.temperature.target_entropy=-1.0").context
    temperature, optimizer = context.components["temperature"], context.optimizers["temperature"]
    adjust_temperature(temperature, optimizer, torch.tensor(-3.0))
    assert temperature().item() > 1
    for _ in range(4):
        adjust_temperature(temperature, optimizer, torch.tensor(5.0))
    assert temperature().item() < 1
