"""TD-MPC and TD-MPC2: targets, losses and masks against naive versions, and tiny tasks that are learned by planning."""

import pytest
import torch
from torch.nn import functional

import tiny_tasks  # noqa: F401 - registers the tasks
from paddock.core.errors import InputError
from paddock.evaluation.evaluator import evaluate
from paddock.evaluation.world_model.probe import comparable, model_errors, windows_of
from paddock.rollout.actor import load_policy
from paddock.rollout.model_actors import ScheduledPlanningActor

TINY = [
    "environment=gym",
    "environment.id=Reach-v0",
    "environment.num_envs=4",
    "components.world_model.latent=32",
    "components.world_model.encoder.hidden=[32]",
    *[f"components.world_model.{part}.hidden=[64, 64]" for part in ("dynamics", "reward", "continue")],
    "components.critics.ensemble_size=2",
    "buffers.replay.batch_size=64",
    "controllers.available.mppi.proposals=8",
    "controllers.available.mppi.planner.candidates=64",
    "controllers.available.mppi.planner.iterations=3",
    "controllers.available.mppi.planner.elites=8",
    "evaluation.episodes=20",
    "evaluation.probes.world_model={episodes: 4, steps: 24, context: 2, horizon: 5}",
    "optimizers.world_model.learning_rate=1e-3",
    "optimizers.policy.learning_rate=1e-3",
]
SHORT = [
    "training.phases.seed.duration_steps=400",
    "training.phases.pretrain.duration_updates=300",
    "training.phases.train.workflow_hooks.evaluate.every_steps=100",
    "training.phases.train.workflow_hooks.update.ratio=0.5",
    "training.total_steps=1_600",
]
SCHEDULE = "workflow.schedule={horizon: [1, 5], min_std: [0.5, 0.05], steps: 1_000}"


class InReplay:
    name, buffer = "train", "replay"


def until(best):
    return f"+training.phases.train.until='eval/return >= {best}'"


@pytest.mark.parametrize(
    ("workflow", "task", "best", "more"),
    [
        ("tdmpc2", "Reach-v0", -1.5, []),
        ("tdmpc2", "ReachByChoice-v0", -2.5, []),
        ("tdmpc", "Reach-v0", -1.5, [SCHEDULE]),
    ],
)
def test_tdmpc_learns_to_reach(prepared, workflow, task, best, more):
    """From about -8 for random actions; -0.5 is the best there is, -1.3 with three choices."""
    changes = [f"workflow={workflow}", f"environment.id={task}", until(best)]
    orchestrator = prepared(None, *TINY, *SHORT, *more, *changes)
    outcome = orchestrator.run()
    assert outcome.latest["eval/return"] >= best
    assert 0 < outcome.latest["eval/model_observation_error"] < 1
    assert outcome.latest["eval/model_reward_error"] < 0.5

    loaded = load_policy(orchestrator.run_folder.policy / "latest")
    assert isinstance(loaded, ScheduledPlanningActor)
    options = {"episodes": 4, "seed": 5, "deterministic": True}
    scores = [
        evaluate(actor, orchestrator.make_eval_env, **options).returns.tolist()
        for actor in (loaded, orchestrator.workflow.actor())
    ]
    assert scores[0] == scores[1]


def ready(prepared, workflow, *changes):
    """A run with random experience in its buffer, and weights that are not zero anywhere."""
    orchestrator = prepared(None, *TINY, f"workflow={workflow}", "buffers.replay.batch_size=16", *changes)
    context = orchestrator.context
    context.controllers.select("random")
    orchestrator.workflow.collect_step(160, phase=InReplay)
    torch.manual_seed(0)
    for name in ("world_model", "critics", "target_critics", "policy"):
        for parameter in context.components[name].parameters():
            with torch.no_grad():
                parameter.add_(0.05 * torch.randn_like(parameter))
    return orchestrator.workflow, context


def rows_with_ends(batch):
    """Windows of which some end by termination, some cross into another episode."""
    batch["terminated"][0, 2] = batch["terminated"][1, -1] = True
    batch["is_first"][0, 3] = True
    batch["is_first"][2, 1] = True
    return batch


@pytest.mark.parametrize("ends", ["soft", "ignore"])
@pytest.mark.parametrize("workflow", ["tdmpc", "tdmpc2"])
def test_tdmpc_losses_are_the_naive_sums_over_windows(prepared, workflow, ends):
    """Step by step and window by window, from the equations; with lambda weights rho^t, masks and importance."""
    work, context = ready(prepared, workflow, "components.critics.dropout=0", f"components.world_model.ends={ends}")
    model, critics, policy = (context.components[name] for name in ("world_model", "critics", "policy"))
    target_critics, goal = context.components["target_critics"], context.components.get("target_world_model", model)
    sample = work._prepare(rows_with_ends(context.buffers["replay"].sample()), InReplay)
    horizon, gamma, windows = work.config.horizon, work.config.gamma, 16
    noise = work._noise(horizon * windows)
    _, error, metrics, _ = work.model_gradients(sample, noise, None)
    noise = noise.view(horizon, windows, -1)

    losses = dict.fromkeys(("consistency", "reward", "value", "continue"), 0.0)
    with torch.no_grad():
        for b in range(windows):
            seen = {name: part[:, b] for name, part in sample["observation"].items()}
            z, surprise = model.encoder({"observation": seen["observation"][:1]}), 0.0
            totals = dict.fromkeys(losses, 0.0)
            for t in range(horizon):
                if sample["is_first"][1 : t + 2, b].any():
                    break
                following = {"observation": seen["observation"][t + 1 : t + 2]}
                next_z, action = model.encoder(following), sample["action"][t, b][None]
                next_action = policy(next_z).sample_with_log_prob(noise[t, b][None])[0]
                value = target_critics.coding.predict(target_critics(next_z, next_action)).min()
                goes_on = 1.0 if ends == "ignore" else 1.0 - float(sample["terminated"][t + 1, b])
                target = sample["reward"][t + 1, b] + gamma * goes_on * value
                outputs = critics(z, action)
                inputs = torch.cat([z, action], -1)
                rho = work.config.rho**t
                totals["reward"] += rho * model.coding.loss(model.reward(inputs)[0], sample["reward"][t + 1, b])
                each = [critics.coding.loss(output[0], target) for output in outputs]
                totals["value"] += rho * sum(each) / len(each)
                surprise += rho * sum((critics.coding.predict(output[0]) - target).abs() for output in outputs)
                z = model.dynamics(inputs)
                totals["consistency"] += rho * functional.mse_loss(z, goal.encoder(following))
                if ends == "soft":
                    chance = model.goes_on(z).sigmoid().squeeze()
                    over = sample["terminated"][t + 1, b]
                    totals["continue"] -= (1 - chance).log() if over else chance.log()
            assert float(error[b]) == pytest.approx(float(surprise), rel=1e-3, abs=1e-4)
            weight = float(sample["weight"][b]) if "weight" in sample else 1.0
            for name, total in totals.items():
                losses[name] += weight * float(total) / (windows * horizon)
    for name, loss in losses.items():
        assert float(metrics[f"train/{name}_loss"]) == pytest.approx(loss, rel=1e-3, abs=1e-6), name
    scales = work.config.scales.model_dump(by_alias=True)
    whole = sum(scales[name] * loss for name, loss in losses.items())
    assert float(metrics["train/model_loss"]) == pytest.approx(whole, rel=1e-3)


@pytest.mark.parametrize("workflow", ["tdmpc", "tdmpc2"])
def test_tdmpc_policy_loss_is_the_naive_sum(prepared, workflow):
    work, context = ready(prepared, workflow, "components.critics.dropout=0")
    critics, policy = context.components["critics"], context.components["policy"]
    z = torch.rand(4 if workflow == "tdmpc2" else 6, 16, 32)
    is_open = (torch.rand(z.shape[:2]) > 0.2).float()
    noise = work._noise(is_open.numel())
    metrics, _ = work.policy_gradients(z, is_open, noise, None)
    scale, total = float(context.components["value_scale"]()), 0.0
    noise = noise.view(*is_open.shape, -1)
    with torch.no_grad():
        for t, b in torch.cartesian_prod(torch.arange(len(z)), torch.arange(16)).tolist():
            action, log_prob = policy(z[t, b][None]).sample_with_log_prob(noise[t, b][None])
            values = critics.coding.predict(critics(z[t, b][None], action))
            value = float(values.mean() if workflow == "tdmpc2" else values.min())
            gain = value / scale - work.config.entropy_coef * float(log_prob)
            total -= 0.5**t * float(is_open[t, b]) * gain
    assert float(metrics["train/policy_loss"]) == pytest.approx(
        work.config.scales.policy * total / is_open.numel(), rel=1e-3
    )


def test_tdmpc_policy_of_choices_maximises_the_expected_value(prepared):
    work, context = ready(prepared, "tdmpc2", "environment.id=ReachByChoice-v0", "components.critics.dropout=0")
    critics, policy = context.components["critics"], context.components["policy"]
    z = torch.rand(5, 32)
    with torch.no_grad():
        found = work._expected_value(policy(z), z, None)
        for state, value in zip(z, found, strict=True):
            chances = policy(state[None]).logits.softmax(-1)[0]
            values = torch.stack(
                [critics.coding.predict(critics(state[None], one[None])).mean() for one in torch.eye(3)]
            )
            assert float(value) == pytest.approx(float((chances * values).sum()), rel=1e-4)
    noise = torch.rand(40_000, 3)
    drawn = work._act(z[:1].expand(40_000, -1), noise).mean(0)
    assert torch.allclose(drawn, policy(z[:1]).logits.softmax(-1)[0], atol=0.01)


def test_tdmpc_policy_loss_leaves_model_and_critics_alone(prepared):
    work, context = ready(prepared, "tdmpc2")
    before = {name: context.components[name].state_dict() for name in ("world_model", "critics")}
    before = {name: {key: value.clone() for key, value in state.items()} for name, state in before.items()}
    policy = [parameter.clone() for parameter in context.components["policy"].parameters()]
    work.update_controller(context.buffers["replay"].sample(), phase=InReplay)
    for name, state in before.items():
        for key, value in context.components[name].state_dict().items():
            assert torch.equal(value, state[key]), (name, key)
    after = list(context.components["policy"].parameters())
    assert any(not torch.equal(one, other) for one, other in zip(policy, after, strict=True))


@pytest.mark.parametrize(("workflow", "interval"), [("tdmpc2", 1), ("tdmpc", 2)])
def test_tdmpc_targets_follow_slowly(prepared, workflow, interval):
    work, context = ready(prepared, workflow)
    names = ["target_critics"] + (["target_world_model"] if workflow == "tdmpc" else [])
    for updates in range(2):
        before = {name: [each.clone() for each in context.components[name].parameters()] for name in names}
        context.counters.updates = updates
        work.update(context.buffers["replay"].sample(), phase=InReplay)
        for name in names:
            source = context.components[name.removeprefix("target_")].parameters()
            now = context.components[name].parameters()
            for old, new, goal in zip(before[name], now, source, strict=True):
                moves = (updates + 1) % interval == 0
                assert torch.allclose(new, old.lerp(goal, 0.01) if moves else old, atol=1e-7)


def test_tdmpc_encoder_has_a_third_of_the_learning_rate(prepared):
    work, context = ready(prepared, "tdmpc2")
    model = context.components["world_model"]
    before = {name: value.clone() for name, value in model.named_parameters()}
    work.update(context.buffers["replay"].sample(), phase=InReplay)
    rate = context.optimizers["world_model"].learning_rate
    for name, value in model.named_parameters():
        step = float((value - before[name]).detach().abs().max())  # Adam's first step is the learning rate's.
        if step:
            assert step == pytest.approx(rate * (0.3 if name.startswith("encoder") else 1.0), rel=0.02), name


def test_tdmpc_schedule_lengthens_and_narrows_plans(prepared):
    work, context = ready(prepared, "tdmpc", SCHEDULE)
    context.controllers.select("mppi")
    for steps, horizon, least in ((0, 1, 0.5), (500, 3, 0.275), (5_000, 5, 0.05)):
        context.counters.agent_steps = steps
        metrics = work.collect_step(4, phase=InReplay).metrics
        assert metrics["collect/horizon"] == horizon
        assert metrics["collect/min_std"] == pytest.approx(least)
        assert work.actor().limits() == {"horizon": horizon, "min_std": pytest.approx(least)}


def test_tdmpc_plans_for_all_environments_in_one_call(prepared):
    _, context = ready(prepared, "tdmpc2")
    actor = context.controllers["mppi"]
    calls, score = [], actor.world_model.imagine_step
    actor.world_model.imagine_step = lambda latent, action: calls.append(len(action)) or score(latent, action)
    observation = {"observation": torch.rand(4, 2)}
    action, state = actor.act(observation, None, deterministic=False)
    assert action.shape == (4, 1)
    assert state["plan"].shape == (4, 3, 1)
    assert set(calls) == {4 * 8, 4 * 64}, "proposals, and all candidates of all environments"
    assert calls.count(4 * 64) == 3 * 2, "three rounds of three steps, the first of which is `imagine_first`"


def test_tdmpc_window_shorter_than_the_horizon_is_refused(prepared):
    with pytest.raises(InputError, match=r"workflow.horizon = 9 needs windows of 10 rows, and buffers.replay.length"):
        prepared(None, *TINY, "workflow=tdmpc2", "workflow.horizon=9")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("controllers.available.mppi.planner.elites=65", "elites = 65 are chosen among candidates = 64"),
        ("controllers.available.mppi.proposals=64", "proposals = 64 leave nothing of candidates = 64"),
        ("controllers.available.mppi.policy=null", "proposals = 8 need a policy"),
        ("components.world_model.latent=30", "latent = 30 cannot be split into groups of simnorm = 8"),
        ("components.critics.coding.bins=100", "bins = 100 has no bin at zero"),
    ],
)
def test_tdmpc_bad_input_is_one_sentence(prepared, change, message):
    with pytest.raises(InputError, match=message):
        prepared(None, *TINY, "workflow=tdmpc2", change)


def test_tdmpc_imagined_latents_differ_from_encoded_ones_by_the_consistency_loss(prepared):
    """The model as planners and diagnostics use it is the model that the loss was computed with."""
    work, context = ready(prepared, "tdmpc2", "workflow.rho=1.0", "workflow.horizon=1")
    model = context.components["world_model"]
    sample = work._prepare(context.buffers["replay"].sample(), InReplay)
    *_, metrics, _ = work.model_gradients(sample, work._noise(16), None)
    first, second = ({name: part[t] for name, part in sample["observation"].items()} for t in (0, 1))
    nothing, no_action = torch.zeros(16) > 0, torch.zeros(16, 1)
    with torch.no_grad():
        latent = model.observe(model.initial(16), no_action, first, nothing)
        imagined = model.features(model.imagine_step(latent, sample["action"][0]))
        seen = model.features(model.observe(latent, no_action, second, nothing))
    distance = ((imagined - seen).square().mean(-1) * sample["is_step"][0]).mean()
    assert float(metrics["train/consistency_loss"]) == pytest.approx(float(distance), rel=1e-4)


@pytest.mark.parametrize("controller", ["mppi", "cem", "shooting", "policy"])
def test_tdmpc_controllers_act_with_one_model(prepared, controller):
    _, context = ready(prepared, "tdmpc2")
    actor = context.controllers[controller]
    with torch.inference_mode():
        action, state = actor.act({"observation": torch.rand(4, 2)}, None, deterministic=True)
    assert action.shape == (4, 1)
    assert action.abs().max() <= 1
    assert ("plan" in state) == (controller != "policy")


def test_tdmpc_plans_in_bfloat16_choose_nearly_the_same_actions(prepared):
    options = [f"controllers.available.mppi.{key}" for key in ("planner.candidates=256", "planner.elites=32")]
    _, context = ready(prepared, "tdmpc2", *options)
    actor, seen = context.controllers["mppi"], {"observation": torch.rand(64, 2)}
    plans = []
    for precision in ("float32", "bfloat16"):
        actor.config = actor.config.model_copy(update={"precision": precision})
        torch.manual_seed(7)
        with torch.inference_mode():
            _, state = actor.act(seen, None, deterministic=True)
        plans.append(state["plan"][:, 0])
    assert float((plans[0] - plans[1]).abs().mean()) < 0.1


@pytest.mark.parametrize("proposals", [0, 6])
def test_dreamers_planners_use_its_value_and_policy(prepared, proposals):
    small = [
        "environment=gym",
        "environment.id=Reach-v0",
        "workflow=dreamer",
        "controllers.available.mppi.value=value",
        "controllers.available.mppi.policy=policy",
        f"controllers.available.mppi.proposals={proposals}",
        "controllers.available.mppi.planner={horizon: 3, candidates: 16, elites: 4, proposals: replace}",
        "+controllers.available.mppi.planner.select=sample",
    ]
    actor = prepared(None, *small).context.controllers["mppi"]
    value = actor.parts["value"]
    torch.nn.init.normal_(value.output.weight)
    with torch.inference_mode():
        action, _ = actor.act({"observation": torch.rand(2, 2)}, None, deterministic=False)
    assert action.shape == (2, 1)
    with pytest.raises(InputError, match=r"proposals = 6 need a policy"):
        prepared(None, *small[:4], "controllers.available.mppi.proposals=6")


def test_tdmpc_diagnostics_compare_latents_by_the_mean_of_their_variances(prepared):
    _, context = ready(prepared, "tdmpc2")
    model = context.components["world_model"]
    batch = context.buffers["replay"].sample(8, 6)
    windows = windows_of(batch, context.spec.action, 2)
    errors = model_errors(model, windows, seed=0)
    with torch.inference_mode():
        seen = model.encode_sequence(batch["observation"])
        assert torch.allclose(comparable(model, windows).observation["latent"], seen)
        counted = windows.is_counted
        variance = seen[:, 2:][counted].double().var(0).mean()
        latent = {"state": seen[:, 1], "reward": torch.zeros(8)}
        for step in range(4):
            latent = model.imagine_step(latent, windows.action[:, 1 + step])
            error = (latent["state"] - seen[:, 2 + step]).double().square().mean(-1)
            naive = (error * counted[:, step]).sum() / counted[:, step].sum().clamp(min=1) / variance
            assert errors.observation[step] == pytest.approx(float(naive), rel=1e-3)
