"""Dreamer in all its versions, on a task that is learned in seconds."""

from copy import deepcopy

import numpy as np
import pytest
import torch

import tiny_tasks  # noqa: F401 - registers the task
from paddock.buffers.recordings import RecordingBuffer, RecordingConfig
from paddock.core.errors import InputError, PaddockError
from paddock.core.specs import ArraySpec
from paddock.rollout.actor import load_policy
from paddock.workflows.dreamer import imagined_returns, replay_returns
from paddock.workflows.world_model_update import prepare_batch
from tiny_tasks import Reach

VERSIONS = ["dreamer", "dreamer_v1", "dreamer_v2", "dreamer_v3_2023"]
TINY = [
    "environment.id=Reach-v0",
    "environment.num_envs=4",
    "components.world_model.rssm.deter=32",
    "components.world_model.rssm.hidden=32",
    "components.world_model.rssm.groups=4",
    "components.world_model.rssm.classes=4",
    "components.world_model.rssm.blocks=2",
    *[f"components.world_model.{part}.units=32" for part in ("encoder", "decoder", "reward", "continue")],
    *[f"components.world_model.{part}.layers=1" for part in ("encoder", "decoder", "reward", "continue")],
    "components.policy.layers=1",
    "components.value.layers=1",
    "workflow.horizon=4",
    "buffers.replay.capacity=2_000",
    "buffers.replay.batch_size=8",
    "buffers.replay.length=7",
    "evaluation.episodes=8",
    "logging.every_steps=40",
]


def phases(seed, ratio, more=""):
    return (
        f"training.phases=[{{name: seed, buffer: replay, controller: random, duration_steps: {seed}, "
        f"workflow_hooks: [{{collect: {{steps: 4}}}}]}}, "
        f"{{name: joint, buffer: replay, {more} workflow_hooks: [{{collect: {{steps: 4}}}}, "
        f"{{update: {{ratio: {ratio}}}}}, {{evaluate: {{every_steps: 400}}}}]}}]"
    )


BRIEFLY = [*TINY, phases(80, 0.25), "training.total_steps=120"]


def test_dreamer_learns_to_reach(prepared):
    """From about -8 for random actions to near the best there is, from a few thousand steps and its dreams."""
    outcome = prepared(
        "dreamer_cartpole",
        *TINY,
        "environment.id=ReachByChoice-v0",
        "components.world_model.rssm.norm=layer",
        "workflow.imagination_starts=null",
        "workflow.gamma=0.9",
        "workflow.horizon=5",
        "buffers.replay.batch_size=16",
        "optimizers.world_model.learning_rate=3e-3",
        "optimizers.policy.learning_rate=3e-3",
        "optimizers.value.learning_rate=3e-3",
        *[f"optimizers.{name}.warm_up=50" for name in ("world_model", "policy", "value")],
        phases(400, 0.25, "until: 'eval/return >= -3',"),
        "training.total_steps=4_000",
    ).run()
    assert outcome.latest["eval/return"] >= -3


@pytest.mark.parametrize("task", ["Reach-v0", "ReachByChoice-v0"])
@pytest.mark.parametrize("version", VERSIONS)
def test_every_version_trains_and_its_policy_can_be_carried_away(prepared, version, task):
    run = prepared("dreamer_cartpole", f"workflow={version}", *BRIEFLY, f"environment.id={task}")
    before = {name: part.clone() for name, part in run.context.components["policy"].state_dict().items()}
    outcome = run.run()
    assert outcome.status == "finished"
    assert outcome.counters.updates == 10
    assert outcome.counters.imagined_steps == 10 * 4 * 48
    after = run.context.components["policy"].state_dict()
    assert any(not torch.equal(before[name], after[name]) for name in before)

    actor, loaded = run.workflow.actor(), load_policy(run.run_folder.policy / "latest")
    observation = {"observation": torch.randn(3, 2)}
    states = [actor.initial_state(3), loaded.initial_state(3)]
    for _ in range(3):  # The memory goes along.
        actions = []
        for index, one in enumerate((actor, loaded)):
            torch.manual_seed(5)
            action, states[index] = one.act(observation, states[index], deterministic=True)
            actions.append(action)
        assert torch.equal(*actions)
    assert all(torch.equal(states[0][name], states[1][name]) for name in states[0])


def test_zero_initialised_heads_predict_nothing_at_the_start(prepared):
    run = prepared("dreamer_cartpole", *BRIEFLY)
    model, value = run.context.components["world_model"], run.context.components["value"]
    latent = {name: torch.randn(9, part.shape[1]) for name, part in model.initial(1).items()}
    assert (model.predict_reward(latent) == 0).all()
    assert (value.predict(value(model.features(latent))) == 0).all()


class PerfectModel:
    """The line on which Reach happens, as a world model: a latent is the state itself."""

    def initial(self, batch):
        return {"state": torch.zeros(batch, 2)}

    def features(self, latent):
        return latent["state"]

    def imagine_step(self, latent, action):
        position, target = latent["state"].unbind(-1)
        moved = (position + 0.4 * action[:, 0]).clamp(-2, 2)
        return {"state": torch.stack([moved, target], -1)}


def test_a_dream_in_a_perfect_model_is_what_really_happens(prepared):
    """Imagined states, rewards and returns against the real task, step by step."""
    run = prepared("dreamer_cartpole", *BRIEFLY)
    dreamer, horizon, discount = run.workflow, 6, 0.9
    dreamer.model = PerfectModel()
    dreamer.policy = Steering
    starts = torch.rand(5, 2) * 2 - 1
    features, actions = dreamer.imagine({"state": starts}, horizon=horizon)
    assert features.shape == (horizon + 1, 5, 2)
    for copy in range(5):
        task, rewards = Reach(), []
        task.reset(seed=0)
        task.state = starts[copy].double().numpy().copy()
        for t in range(horizon):
            seen, reward, *_ = task.step(actions[t, copy].numpy().astype(np.float64))
            assert features[t + 1, copy].numpy() == pytest.approx(seen, abs=1e-5)
            rewards.append(reward)
        naive = sum(discount**t * reward for t, reward in enumerate(rewards))
        reward = -(features[1:, copy, 0] - features[1:, copy, 1]).abs()[:, None]
        certain, nothing = torch.ones(horizon + 1, 1), torch.zeros(horizon + 1, 1)
        returns, weight = imagined_returns(reward, certain, nothing, gamma=discount, lambda_=1.0)
        assert returns[0].item() == pytest.approx(naive, abs=1e-4)
        assert weight[:, 0].tolist() == pytest.approx([discount**t for t in range(horizon)])


class Steering:
    """Acts as a policy's distribution does: halfway towards the target, always."""

    def __init__(self, features):
        self.action = ((features[:, 1:] - features[:, :1]) / 0.8).clamp(-1, 1)

    def sample(self):
        return self.action


def test_what_follows_a_likely_end_counts_less():
    goes_on = torch.tensor([[1.0], [0.5], [0.0], [1.0]])
    reward, value = torch.ones(3, 1), torch.full((4, 1), 10.0)
    returns, weight = imagined_returns(reward, goes_on, value, gamma=0.9, lambda_=0.0)
    assert returns[:, 0].tolist() == pytest.approx([1 + 0.45 * 10, 1, 1 + 0.9 * 10])
    assert weight[:, 0].tolist() == pytest.approx([1, 0.45, 0])


def test_rows_become_what_an_action_led_to():
    rows = {
        "observation": {"observation": torch.arange(8).view(2, 4, 1)},
        "action": torch.arange(8.0).view(2, 4, 1) / 8,
        "reward": torch.arange(20.0, 28.0).view(2, 4),
        "is_first": torch.zeros(2, 4, dtype=torch.bool),
        "terminated": torch.tensor([[False] * 4, [False, True, False, False]]),
        "truncated": torch.tensor([[False, False, True, False], [False] * 4]),
    }
    steer = ArraySpec(shape=(1,), dtype="float32", low=-1.0, high=1.0)
    seen = prepare_batch(rows, steer, skip=1)
    assert seen["observation"]["observation"][:, 0, 0].tolist() == [1, 2, 3]
    assert (8 * seen["previous_actions"][:, 0, 0]).tolist() == [0, 1, 2]
    assert (8 * seen["action"][:, 0, 0]).tolist() == [1, 2, 3]
    assert seen["reward"][:, 0].tolist() == [21, 22, 23]
    assert seen["is_last"].T.tolist() == [[False, True, False], [True, False, False]]
    assert seen["continue"].T.tolist() == [[1, 1, 1], [0, 1, 1]]


def test_returns_along_real_sequences_stop_at_episodes_ends():
    """A truncated episode goes on in the dream, a terminated one does not; last rows teach nothing."""
    sample = {
        "reward": torch.tensor([[0.0, 1, 2, 0, 3], [0.0, 1, 2, 0, 3]]).T,
        "continue": torch.tensor([[1.0, 1, 1, 1, 1], [1.0, 1, 0, 1, 1]]).T,
        "is_last": torch.tensor([[False, False, True, False, False]] * 2).T,
    }
    dreamed = torch.full((5, 2), 10.0)
    returns, counts = replay_returns(sample, dreamed, gamma=0.5, lambda_=1.0)
    assert returns[:2, 0].tolist() == [1 + 0.5 * (2 + 0.5 * 10), 2 + 0.5 * 10]
    assert returns[:2, 1].tolist() == [1 + 0.5 * 2, 2]
    assert returns[3].tolist() == [3 + 0.5 * 10] * 2
    assert counts[:, 0].tolist() == [1, 1, 0, 1]


def test_a_checkpoint_of_another_version_is_refused(prepared):
    run = prepared("dreamer_cartpole", *BRIEFLY)
    run.run()
    other = prepared("dreamer_cartpole", "workflow=dreamer_v2", *BRIEFLY, run="other")
    with pytest.raises(InputError, match=r"was written by .*Dreamer \(v3_2024\), this run is .*Dreamer \(v2\)"):
        other.restore(run.checkpoints.load())


def test_a_number_that_is_none_ends_the_run_and_is_kept(prepared):
    run = prepared("dreamer_cartpole", *BRIEFLY)
    collect = run.workflow.collect_step

    def damaged(step, *, phase):
        result = collect(step, phase=phase)
        if run.counters.agent_steps > 90:
            run.context.buffers["replay"]._storage.arrays["observation.observation"][:] = np.nan
        return result

    run.workflow.collect_step = damaged
    with pytest.raises(PaddockError, match=r"NaN or Inf in loss in phase 'joint', update, after .* kept in") as caught:
        run.run()
    folder = str(caught.value).split("'")[3]
    assert folder.endswith(tuple("0123456789"))


@pytest.mark.parametrize("preset", ["model_pretraining", "only_dream"])
def test_phases_by_preset(prepared, preset):
    """The model learns alone before, or stands still after; the shipped phases, made short."""
    overrides = {
        "model_pretraining": ["training.phases.seed.duration_steps=80", "training.phases.pretrain.duration_updates=3"],
        "only_dream": [
            "training.phases.seed.duration_steps=80",
            "training.phases.joint.duration_steps=8",
            "training.phases.dream.duration_updates=3",
        ],
    }
    run = prepared("dreamer_cartpole", f"preset={preset}", *TINY, *overrides[preset], "training.total_steps=120")
    model, policy = (run.context.components[name] for name in ("world_model", "policy"))
    changed, learn = [], {name: getattr(run.workflow, name) for name in ("update_world_model", "update_controller")}

    def watch(hook):
        def watched(batch, *, phase):
            before = [part.detach().clone() for part in (*model.parameters(), *policy.parameters())]
            metrics = learn[hook](batch, phase=phase)
            after = [*model.parameters(), *policy.parameters()]
            same = [torch.equal(one, other) for one, other in zip(before, after, strict=True)]
            count = len(list(model.parameters()))
            changed.append((phase.name, not all(same[:count]), not all(same[count:])))
            return metrics

        return watched

    for hook in learn:
        setattr(run.workflow, hook, watch(hook))
    assert run.run().status == "finished"
    expected = {"model_pretraining": ("pretrain", True, False), "only_dream": ("dream", False, True)}
    assert changed == [expected[preset]] * 3


def test_a_model_learns_from_a_recording_alone(prepared, tmp_path):
    recorder = prepared("dreamer_cartpole", *BRIEFLY, run="recorder").context
    folder = tmp_path / "recording"
    recording = RecordingBuffer(RecordingConfig(_target_="x", folder=str(folder)), recorder.spec, 4)
    recorder.experience.collect(recorder.controllers["random"], recording, 200)
    recording.flush()
    run = prepared(
        "dreamer_cartpole",
        "preset=model_from_recording",
        *TINY,
        f"buffers.dataset.sources=[{folder}]",
        "training.phases.pretrain.duration_updates=5",
    )
    outcome = run.run()
    assert outcome.status == "finished"
    assert (outcome.counters.agent_steps, outcome.counters.updates) == (0, 5)


def test_learning_rates_fall_to_zero_over_the_run(prepared):
    run = prepared("dreamer_cartpole", *BRIEFLY, "workflow.anneal_learning_rate=true")
    full = {name: optimizer.learning_rate for name, optimizer in run.context.optimizers.items()}
    run.run()
    assert full.keys() == {"world_model", "policy", "value"}
    for name, optimizer in run.context.optimizers.items():  # The last update came a round of 4 steps before the end.
        assert optimizer.learning_rate / full[name] <= 4 / 120 + 1e-9


def test_target_update_interval_spaces_the_steps_of_the_slow_value(prepared):
    run = prepared("dreamer_cartpole", *BRIEFLY, "workflow.target_update_interval=3")
    counters, followed, update = run.context.counters, [], run.workflow.slow.update
    run.workflow.slow.update = lambda: followed.append(counters.updates + 1) or update()
    total = run.run().counters.updates
    assert followed == [number for number in range(1, total + 1) if number % 3 == 0]
    assert followed


def test_reinforce_share_mixes_the_losses_of_reinforce_and_of_the_dynamics(prepared):
    run = prepared("dreamer_cartpole", *BRIEFLY)
    run.run()
    dreamer, phase = run.workflow, list(run.config.training.phases.values())[-1]
    batch, scale = run.context.buffers["replay"].sample(), deepcopy(dreamer.return_scale.state_dict())
    losses = {}
    for name in ("policy", "value"):
        run.context.optimizers[name].descend = lambda loss, gradients: 0.0  # Nothing is changed in between.
    for share in (0.0, 0.3, 1.0):
        dreamer.reinforce_share, dreamer.by_dynamics = share, share < 1
        dreamer.return_scale.load_state_dict(scale)
        torch.manual_seed(5)
        losses[share] = dreamer.update_controller(batch, phase=phase)["controller/policy_loss"].item()
    assert losses[0.0] != pytest.approx(losses[1.0], rel=0.1)
    assert losses[0.3] == pytest.approx(0.3 * losses[1.0] + 0.7 * losses[0.0], rel=1e-4)


@pytest.mark.parametrize("task", ["Reach-v0", "ReachByChoice-v0"])
@pytest.mark.parametrize("version", VERSIONS)
def test_reinforce_share_mixes_the_gradients_of_reinforce_and_of_the_dynamics(prepared, version, task):
    # Bins that grow exponentially reach 4.8e8: through a hardly trained head the gradient is lost in rounding.
    even = [f"components.{name}.kind=two_hot_symlog" for name in ("value", "world_model.reward")]
    heads = even if version == "dreamer" else []
    run = prepared("dreamer_cartpole", f"workflow={version}", *BRIEFLY, *heads, f"environment.id={task}")
    run.run()
    dreamer, phase = run.workflow, list(run.config.training.phases.values())[-1]
    batch, scale = run.context.buffers["replay"].sample(), deepcopy(dreamer.return_scale.state_dict())
    parameters, gradients = list(dreamer.policy.parameters()), []

    def differentiate(loss, retain_graph):
        found = torch.autograd.grad(loss, parameters, retain_graph=True)
        gradients.append(torch.cat([gradient.flatten() for gradient in found]))
        return found

    run.context.optimizers["policy"].differentiate = differentiate  # Before clipping.
    for name in ("policy", "value"):
        run.context.optimizers[name].descend = lambda loss, gradients: 0.0  # Nothing is changed in between.
    for share in (0.0, 0.3, 1.0):
        dreamer.reinforce_share, dreamer.by_dynamics = share, share < 1
        dreamer.return_scale.load_state_dict(scale)
        torch.manual_seed(5)
        dreamer.update_controller(batch, phase=phase)
    dynamics, mixed, reinforce = gradients
    assert torch.nn.functional.cosine_similarity(dynamics, reinforce, dim=0) < 0.99
    size = min(dynamics.norm(), reinforce.norm())
    assert size > 0
    assert (mixed - (0.3 * reinforce + 0.7 * dynamics)).norm() < 1e-4 * size


def test_scales_have_one_entry_for_each_of_the_seven_losses(prepared):
    run = prepared("dreamer_cartpole", *BRIEFLY, "workflow.scales.value=0.5")
    run.run()
    dreamer, phase = run.workflow, list(run.config.training.phases.values())[-1]
    batch = run.context.buffers["replay"].sample()
    metrics = dreamer.update(batch, phase=phase)
    model = ["observation", "reward", "continue", "dynamics", "representation"]
    assert list(dreamer.scales) == [*model, "policy", "value"]
    total = sum(dreamer.scales[name] * metrics[f"train/{name}_loss"] for name in model)
    assert metrics["train/model_loss"].item() == pytest.approx(total.item(), rel=1e-5)
    assert {"controller/policy_loss", "controller/value_loss"} <= metrics.keys()
    del dreamer.scales["observation"]
    with pytest.raises(AssertionError, match="scales"):
        dreamer.update(batch, phase=phase)


def test_scales_of_the_value_weigh_its_gradient(prepared):
    run = prepared("dreamer_cartpole", *BRIEFLY)
    run.run()
    dreamer, descended = run.workflow, []
    for name in ("policy", "value"):
        run.context.optimizers[name].descend = lambda loss, gradients: descended.append(loss.item()) or 0.0
    phase, batch = list(run.config.training.phases.values())[-1], run.context.buffers["replay"].sample()
    scale = deepcopy(dreamer.return_scale.state_dict())
    for weight in (1.0, 0.25):
        dreamer.scales["value"] = weight
        dreamer.return_scale.load_state_dict(scale)
        torch.manual_seed(5)
        dreamer.update_controller(batch, phase=phase)
    (policy, value), (same_policy, lighter) = descended[:2], descended[2:]
    assert same_policy == policy
    assert lighter == pytest.approx(0.25 * value, rel=1e-6)
