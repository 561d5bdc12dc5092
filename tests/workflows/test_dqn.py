import pytest
import torch

import tiny_tasks  # noqa: F401 - registers the task
from paddock.rollout.actor import load_policy
from paddock.workflows.dqn import gather_actions, huber, quantile_huber_loss, weighted_mean

TINY = [
    "environment.id=ReachByChoice-v0",
    "environment.num_envs=4",
    "components.action_values.network.hidden=[32, 32]",
    "buffers.replay.batch_size=32",
    "workflow.epsilon.steps=1_000",
    "evaluation.episodes=20",
    "logging.every_steps=500",
    "training.phases.joint.workflow_hooks=[{collect: {steps: 4}}, {update: {ratio: 0.5}}]",
    "training.total_steps=3_000",
]


def learned(outcome_of, *overrides):
    judge = "{evaluate: {every_steps: 500}}"
    hooks = f"[{{collect: {{steps: 4}}}}, {{update: {{ratio: 0.5}}}}, {judge}]"
    orchestrator = outcome_of(
        "dqn_cartpole",
        *TINY,
        f"training.phases.joint.workflow_hooks={hooks}",
        "training.phases.joint.until='eval/return >= -2.2'",
        "training.phases.seed.duration_steps=200",
        "training.total_steps=8_000",
        *overrides,
    )
    return orchestrator, orchestrator.run().latest["eval/return"]


@pytest.mark.parametrize(
    "variant",
    [
        ["workflow=dqn"],
        ["workflow=iqn", "workflow.target_quantiles=8", "components.action_values.acting_quantiles=8"],
        ["workflow.double=false", "components.action_values.dueling=false", "buffers.replay.n_step=1"],
    ],
    ids=["dqn", "iqn", "plain"],
)
def test_dqn_learns_to_reach(prepared, variant):
    """From about -8.7 for random choices towards -1.3 for the best player."""
    orchestrator, score = learned(prepared, *variant)
    assert score >= -2.2
    rows = orchestrator.run_folder.read_metrics()
    assert rows[0]["collect/epsilon"] == pytest.approx(0.764, abs=0.01)  # the mean on the way from 1.0 to 0.525
    saved = load_policy(orchestrator.run_folder.policy / "best")
    observation = {"observation": torch.tensor([[1.0, -1.0], [-1.0, 1.0]])}
    assert saved.act(observation, None, deterministic=True)[0].tolist() == [0, 2]


@pytest.mark.parametrize("length", [[], ["workflow.epsilon.steps=null", "workflow.epsilon.share=0.3333333333"]])
def test_epsilon_falls_linearly_and_then_stays(prepared, length):
    orchestrator = prepared("dqn_cartpole", *TINY, *length)
    workflow, counters = orchestrator.workflow, orchestrator.counters
    seen = []
    for steps in (0, 500, 1_000, 5_000):
        counters.agent_steps = steps
        seen.append(workflow.epsilon)
    assert seen == pytest.approx([1.0, 0.525, 0.05, 0.05])
    actor, observation = workflow.actor(), {"observation": torch.zeros(10_000, 2)}
    actor.epsilon.fill_(0.3)
    best = actor.act(observation, None, deterministic=True)[0]
    other = (actor.act(observation, None, deterministic=False)[0] != best).float().mean().item()
    assert other == pytest.approx(0.3 * 2 / 3, abs=0.02)


def test_the_double_target_chooses_by_one_and_judges_by_the_other(prepared):
    orchestrator = prepared("dqn_cartpole", *TINY)
    workflow = orchestrator.workflow
    with torch.no_grad():
        for parameter in workflow.target_values.parameters():
            parameter.add_(torch.randn_like(parameter))
    following, seen = {"observation": torch.randn(5, 2)}, {"observation": torch.randn(5, 2)}
    action = torch.tensor([0, 1, 2, 1, 0])
    sample = {"observation": seen, "next_observation": following, "action": action}
    sample |= {"reward": torch.randn(5), "bootstrap": torch.tensor([0.9, 0.0, 0.9, 0.81, 0.9])}
    _, error, _ = workflow._value_gradients(sample)
    for i in range(5):
        one = {"observation": following["observation"][i : i + 1]}
        best = workflow.values(one)[0].argmax()
        target = sample["reward"][i] + sample["bootstrap"][i] * workflow.target_values(one)[0, best]
        value = workflow.values({"observation": seen["observation"][i : i + 1]})[0, action[i]]
        assert error[i].item() == pytest.approx((target - value).item(), abs=1e-5)


def test_the_target_follows_every_so_many_updates(prepared):
    orchestrator = prepared("dqn_cartpole", *TINY, "workflow.tau=1.0", "workflow.target_update_interval=3")
    workflow, context = orchestrator.workflow, orchestrator.context
    phase = orchestrator.config.training.phases["joint"]
    workflow.collect_step(128, phase=phase)
    equal = []
    for _ in range(6):
        workflow.update(context.buffers["replay"].sample(), phase=phase)
        context.counters.updates += 1
        pairs = zip(workflow.values.parameters(), workflow.target_values.parameters(), strict=True)
        equal.append(all(torch.equal(*pair) for pair in pairs))
    assert equal == [False, False, True, False, False, True]


def test_the_quantile_loss_equals_a_plain_loop_with_its_gradient():
    torch.manual_seed(0)
    value, target, fractions = torch.randn(3, 4, requires_grad=True), torch.randn(3, 5) * 2, torch.rand(3, 4)
    found = quantile_huber_loss(value, target, fractions, 0.7)
    expected = []
    for n in range(3):
        total = torch.zeros(())
        for i in range(4):
            for j in range(5):
                delta = target[n, j] - value[n, i]
                small = delta.abs() <= 0.7
                huber_of = 0.5 * delta**2 if small else 0.7 * (delta.abs() - 0.35)
                total = total + (fractions[n, i] - float(delta < 0)).abs() * huber_of / 0.7 / 5
        expected.append(total)
    expected = torch.stack(expected)
    assert torch.allclose(found, expected, atol=1e-5)
    gradients = [torch.autograd.grad(each.sum(), value, retain_graph=True)[0] for each in (found, expected)]
    assert torch.allclose(*gradients, atol=1e-6)


def test_small_parts():
    values = torch.arange(24.0).view(2, 3, 4)
    assert gather_actions(values, torch.tensor([1, 3])).tolist() == [[1, 5, 9], [15, 19, 23]]
    assert gather_actions(values[:, 0], torch.tensor([0, 2])).tolist() == [0, 14]
    assert huber(torch.tensor([0.5, -3.0]), 1.0).tolist() == pytest.approx([0.125, 2.5])
    loss, weight = torch.tensor([1.0, 3.0]), torch.tensor([1.0, 0.5])
    assert weighted_mean(loss, None).item() == 2.0
    assert weighted_mean(loss, weight).item() == 1.25


@pytest.mark.parametrize("progress", [0.0, 0.25, 1.0])
def test_beta_goes_from_its_start_to_its_end_with_the_progress(prepared, progress):
    run = prepared("dqn_cartpole", *TINY, "workflow.beta=[0.2, 0.9]", "training.total_steps=240")
    run.run()
    workflow, buffer, weights = run.workflow, run.context.buffers["replay"], []
    run.context.counters.agent_steps = int(240 * progress)
    assert run.context.progress == pytest.approx(progress)
    gradients = workflow.gradients
    workflow.gradients = lambda sample: weights.append(sample["weight"]) or gradients(sample)
    batch = buffer.sample()
    workflow.update(batch, phase=run.config.training.phases["joint"])
    beta = 0.2 + progress * 0.7
    naive = torch.tensor([(len(buffer) * one) ** -beta for one in batch["probability"].tolist()])
    assert torch.allclose(weights[0].cpu().double(), (naive / naive.max()).double(), rtol=1e-4)


def test_random_choices_are_held(prepared):
    """In a share epsilon of all steps, for `duration` steps on average, and anew in every copy."""
    orchestrator = prepared("dqn_cartpole", *TINY, "workflow.epsilon.duration=5")
    actor, observation = orchestrator.workflow.actor(), {"observation": torch.zeros(2_000, 2)}
    actor.epsilon.fill_(0.2)
    state, seen = actor.initial_state(2_000), []
    for _ in range(60):
        action, state = actor.act(observation, state, deterministic=False)
        assert torch.equal(action[state["held"] >= 0], state["held"][state["held"] >= 0])
        seen.append(state["held"])
    held = torch.stack(seen)[20:]
    assert (held >= 0).float().mean().item() == pytest.approx(0.2, abs=0.02)
    ends = (held[:-1] >= 0) & (held[1:] != held[:-1])  # But for a third of the choices that follow one another.
    assert ends.sum().item() / (held[:-1] >= 0).sum().item() == pytest.approx(0.2, abs=0.03)
    best = actor.act(observation, None, deterministic=True)[0]
    assert torch.equal(best, actor.act(observation, None, deterministic=True)[0])


@pytest.mark.parametrize("controller", ["held", "random"])
def test_held_choices_at_the_start_find_a_goal_that_single_ones_miss(prepared, controller):
    """Of 60 episodes, the first 12,000 steps on MountainCar, about one in eight; an episode without it returns -200."""
    seed = f"{{seed: {{controller: {controller}, duration_steps: 12_000}}}}"
    short = [f"training.phases={seed}", "training.total_steps=12_000", "logging.every_steps=400"]
    orchestrator = prepared("dqn", "environment.id=MountainCar-v0", *short)
    orchestrator.run()
    returns = [row["collect/return"] for row in orchestrator.run_folder.read_metrics() if "collect/return" in row]
    assert len(returns) > 10
    assert (max(returns) > -200) == (controller == "held")
