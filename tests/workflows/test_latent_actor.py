"""The latent actor's losses against naive ones, what an update moves, and that it learns."""

import pytest
import torch
from torch import nn

import tiny_tasks  # noqa: F401 - registers the tasks
from paddock.buffers.recordings import RecordingBuffer, RecordingConfig
from paddock.components.dynamics.latent_dynamics import LatentModel, LatentModelConfig
from paddock.core.errors import InputError, PaddockError
from paddock.core.specs import ArraySpec, Spec
from paddock.workflows.latent_actor import discounted_sum, follow, masked_mean, model_losses

TINY = [
    "environment=gym",
    "workflow=latent_actor",
    "environment.id=Reach-v0",
    "environment.num_envs=4",
    "buffers.replay.length=5",
    "workflow.horizon=6",
    "evaluation.episodes=20",
    "optimizers.policy.learning_rate=1e-3",
    "optimizers.world_model.learning_rate=2e-3",
]
WITH_VALUE = [*TINY, "latent_value=mlp"]
HOOKS = (
    "[{collect: {steps: 4}}, {update_world_model: {ratio: 0.25}}, {update_controller: {ratio: 0.25}}, "
    "{evaluate: {every_steps: 200}}]"
)


def phases(until="eval/return >= -1.3"):
    return (
        "training.phases=[{name: seed, buffer: replay, controller: random, duration_steps: 400, "
        f"workflow_hooks: [{{collect: {{steps: 4}}}}]}}, {{name: model, type: offline, buffer: replay, "
        f"duration_updates: 100, workflow_hooks: [update_world_model]}}, "
        f"{{name: joint, buffer: replay, until: '{until}', workflow_hooks: {HOOKS}}}]"
    )


def model(goes_on=None):
    parts = {"a": ArraySpec(shape=(2,), dtype="float32"), "b": ArraySpec(shape=(), dtype="float32")}
    spec = Spec(observation=parts, action=ArraySpec(shape=(2,), dtype="float32", low=-1.0, high=1.0), is_dict=True)
    target = "paddock.components.dynamics.latent_dynamics.LatentModel"
    config = LatentModelConfig.model_validate({"_target_": target, "latent": 4, "continue": goes_on})
    torch.manual_seed(1)
    made = LatentModel(config, spec)
    made.learn_scale({"a": torch.randn(5, 10, 2) * 3 + 1, "b": torch.randn(5, 10)})
    return made


def window(batch=3, steps=6):
    is_first = torch.zeros(steps, batch, dtype=torch.bool)
    is_first[2, 0] = is_first[0, 1] = True
    terminated = torch.zeros_like(is_first)
    terminated[1, 0] = terminated[5, 2] = True
    return {
        "observation": {"a": torch.randn(steps, batch, 2), "b": torch.randn(steps, batch)},
        "action": torch.rand(steps, batch, 2),
        "previous_actions": torch.zeros(steps, batch, 2),
        "reward": torch.randn(steps, batch),
        "is_first": is_first,
        "terminated": terminated,
    }


@pytest.mark.parametrize("goes_on", [None, [8]])
def test_the_losses_are_the_naive_ones(goes_on):
    """Row by row, step by step, with plain numbers."""
    made, rows = model(goes_on), window()
    made.requires_grad_(False)
    losses, _ = model_losses(made, rows)
    found = {name: [] for name in losses}
    for b in range(3):
        state = None
        for t in range(6):
            seen = {name: part[t, b].unsqueeze(0) for name, part in rows["observation"].items()}
            scaled = made.scaled(seen)[0]
            encoded = made.observe(made.initial(1), torch.zeros(1, 2), seen, torch.ones(1, dtype=torch.bool))["state"]
            found["reconstruction"].append((made.decoder(encoded)[0] - scaled).square().mean())
            if t and not rows["is_first"][t, b]:
                state = made.imagine_step({"state": state}, rows["action"][t - 1, b].unsqueeze(0))["state"]
                found["next_state"].append((state - encoded).square().mean())
                found["next_observation"].append((made.decoder(state)[0] - scaled).square().mean())
                found["reward"].append((made.predict_reward({"state": state})[0] - rows["reward"][t, b]) ** 2)
                chance = made.predict_continue({"state": state})[0]
                found["continue"].append(
                    -(1 - chance if rows["terminated"][t, b] else chance).log() if goes_on else 0.0
                )
            else:
                state = encoded
    for name, values in found.items():
        assert losses[name].item() == pytest.approx(float(sum(values) / len(values)), rel=1e-4, abs=1e-7), name


def test_the_state_is_followed_by_actions_alone_and_begun_anew_with_an_episode():
    made, rows = model(), window()
    seen = made.observe_sequence(rows["observation"], rows["previous_actions"], rows["is_first"])["state"]
    followed = follow(made, seen, rows["action"], rows["is_first"])
    assert torch.equal(followed[2, 0], seen[2, 0])
    assert not torch.equal(followed[3, 0], seen[3, 0])
    later = {**rows, "observation": {name: part.clone() for name, part in rows["observation"].items()}}
    later["observation"]["a"][1:] += 5
    changed = made.observe_sequence(later["observation"], rows["previous_actions"], rows["is_first"])["state"]
    assert torch.equal(follow(made, changed, rows["action"], rows["is_first"])[:, 1:], followed[:, 1:])


def test_decoding_speaks_in_the_observations_own_units():
    made = model()
    parts = made.decode({"state": torch.zeros(5, 7, 4)})
    assert {name: part.shape for name, part in parts.items()} == {"a": (5, 7, 2), "b": (5, 7)}
    raw = made.decoder(torch.zeros(4))
    flat = torch.cat([parts["a"][0, 0], parts["b"][0, 0].view(1)])
    assert torch.allclose(flat, raw * (made.scale.variance.float() + 1e-4).sqrt() + made.scale.mean.float(), atol=1e-4)


def test_later_rewards_count_less_and_none_after_the_end():
    reward = torch.tensor([[1.0], [2.0], [4.0]])
    weight = torch.tensor([[0.9], [0.0], [0.9]])
    assert discounted_sum(reward, weight).item() == pytest.approx(1 + 0.9 * 2)
    assert masked_mean(torch.ones(2, 2), torch.zeros(2, 2)) == 0


def test_a_model_that_learns_from_a_recording_alone_finds_its_scale_there(prepared, tmp_path):
    recorder = prepared(None, *TINY, run="recorder").context
    folder = tmp_path / "recording"
    recording = RecordingBuffer(RecordingConfig(_target_="x", folder=str(folder)), recorder.spec, 4)
    recorder.experience.collect(recorder.controllers["random"], recording, 200)
    recording.flush()
    source = f"buffers.dataset.sources=[{folder}]"
    run = prepared(None, *TINY, "preset=model_from_recording", source, "training.phases.pretrain.duration_updates=3")
    model = run.context.components["world_model"]
    assert not model.knows_scale
    run.run()
    batch, length = run.context.buffers["dataset"].sample()["reward"].shape
    assert model.knows_scale
    assert model.scale.count == batch * length  # From then on it stays: what was learned holds for one scale.


class Signs(nn.Module):
    """A model of two states, told apart by the sign of the latent: rewards +1 for ever, or -1 and the end."""

    def observe_sequence(self, observation, action, is_first):
        return {"state": torch.where(observation["observation"][..., :1] > 0, 1.0, -1.0).expand(*is_first.shape, 32)}

    def imagine_step(self, latent, action):
        return latent

    def features(self, latent):
        return latent["state"]

    def predict_reward(self, latent):
        return latent["state"][..., 0]

    def predict_continue(self, latent):
        return (latent["state"][..., 0] > 0).float()


def test_the_value_learns_a_known_return_and_its_target_follows(prepared):
    """1 / (1 - gamma) where it goes on, though six steps alone make 2.46; the one reward where it ends."""
    changes = ["workflow.gamma=0.75", "workflow.tau=0.1", "optimizers.value.learning_rate=0.01"]
    orchestrator = prepared(None, *WITH_VALUE, *changes)
    workflow, context = orchestrator.workflow, orchestrator.context
    context.controllers.select("random")
    phase = orchestrator.config.training.phases["joint"]
    workflow.collect_step(400, phase=phase)
    workflow.model = Signs()
    context.components["policy"].requires_grad_(False)
    for _ in range(150):
        metrics = workflow.update_controller(context.buffers["replay"].sample(), phase=phase)
    states = torch.stack([torch.ones(32), -torch.ones(32)])
    for value in (workflow.value, workflow.slow_value):
        assert value.predict(value(states)).tolist() == pytest.approx([4.0, -1.0], abs=0.1)
    assert metrics["train/value_loss"] < 1e-3
    assert "train/policy_gradient_norm" not in metrics


@pytest.mark.parametrize("tiny", [TINY, WITH_VALUE], ids=["no value", "value"])
def test_imagined_returns_are_the_naive_ones(prepared, tiny):
    """State by state, step by step, with plain numbers."""
    head = ["components.world_model.continue=[8]", "workflow.lambda=0.7", "workflow.gamma=0.9"]
    workflow = prepared(None, *tiny, *head).workflow
    model, policy, value = workflow.model, workflow.policy, workflow.value
    with torch.no_grad():
        if value is not None:
            workflow.slow_value.output.weight.normal_()
        start, is_open = torch.randn(3, 32), torch.tensor([1.0, 0.0, 1.0])
        found, weight = workflow._returns(workflow.imagine({"state": start}, horizon=4), is_open)
        for s in range(3):
            states = [start[s : s + 1]]
            for _ in range(4):
                states.append(model.imagine_step({"state": states[-1]}, policy(states[-1]))["state"])
            rewards = [model.predict_reward({"state": state}).item() for state in states[1:]]
            chances = [0.9 * model.predict_continue({"state": state}).item() for state in states[1:]]
            if value is None:
                values, share = [0.0] * 5, 1.0
            else:
                values = [workflow.slow_value.predict(workflow.slow_value(state)).item() for state in states]
                share = 0.7
            running, returns, counts = values[-1], [], [is_open[s].item()]
            for reward, chance, after in reversed(list(zip(rewards, chances, values[1:], strict=True))):
                running = reward + chance * ((1 - share) * after + share * running)
                returns.insert(0, running)
            for chance in chances[:-1]:
                counts.append(counts[-1] * chance)
            steps = len(found)
            assert steps == (1 if value is None else 4)
            assert found[:, s].tolist() == pytest.approx(returns[:steps], rel=1e-4)
            assert weight[:, s].tolist() == pytest.approx(counts[:steps], rel=1e-4)


def test_imagination_noise_is_added_to_imagined_actions_that_are_numbers(prepared):
    workflow = prepared(None, *TINY, "workflow.imagination_noise=0.1").workflow
    alike = {"state": torch.randn(1, 32).expand(1_000, 32)}
    taken = []
    workflow.model.imagine_step = lambda latent, action: taken.append(action) or latent
    with torch.no_grad():
        workflow.imagine(alike, horizon=2)
    for action in taken:
        assert action.mean().item() == pytest.approx(workflow.policy(alike["state"])[0].item(), abs=0.02)
        assert action.std().item() == pytest.approx(0.1, abs=0.01)
    with pytest.raises(InputError, match=r"imagination_noise = 0.1 is for continuous actions"):
        prepared(None, *TINY, "environment.id=ReachByChoice-v0", "workflow.imagination_noise=0.1", run="choices")


def test_learning_rates_are_annealed_and_starts_of_imagination_drawn(prepared):
    changes = ["workflow.anneal_learning_rate=true", "workflow.imagination_starts=10", "training.total_steps=1_600"]
    orchestrator = prepared(None, *WITH_VALUE, *changes)
    workflow, context = orchestrator.workflow, orchestrator.context
    context.controllers.select("random")
    phase = orchestrator.config.training.phases["joint"]
    workflow.collect_step(400, phase=phase)
    context.counters.agent_steps = 400
    workflow.update(context.buffers["replay"].sample(), phase=phase)
    assert context.counters.imagined_steps == 6 * 10
    for optimizer in context.optimizers.values():
        assert optimizer.learning_rate == pytest.approx(0.75 * optimizer.config.learning_rate)


@pytest.mark.parametrize("tiny", [TINY, WITH_VALUE], ids=["no value", "value"])
def test_each_update_moves_its_own_part_and_the_policy_learns_through_the_model(prepared, tiny):
    orchestrator = prepared(None, *tiny)
    workflow, context = orchestrator.workflow, orchestrator.context
    others = {"value", "slow_value"} & set(context.components)
    assert len(others) == (2 if tiny is WITH_VALUE else 0)
    context.controllers.select("random")
    phase = orchestrator.config.training.phases["joint"]
    workflow.collect_step(400, phase=phase)

    def state(name):
        return {key: value.clone() for key, value in context.components[name].state_dict().items()}

    def moved(name, before):
        return {key for key, value in state(name).items() if not torch.equal(value, before[key])}

    before = {name: state(name) for name in context.components}
    workflow.update_world_model(context.buffers["replay"].sample(), phase=phase)
    assert len(moved("world_model", before["world_model"])) == 16
    assert not any(moved(name, before[name]) for name in {"policy", *others})
    before = {name: state(name) for name in context.components}
    batch = context.buffers["replay"].sample()
    metrics = workflow.update_controller(batch, phase=phase)
    assert not moved("world_model", before["world_model"])
    assert moved("policy", before["policy"]) == set(before["policy"])
    assert all(moved(name, before[name]) for name in others)
    assert ("train/value_loss" in metrics) == bool(others)
    assert context.counters.imagined_steps == 6 * 32 * 5
    context.components["world_model"].requires_grad_(False)
    frozen = workflow.update(batch, phase=phase)
    assert "train/model_gradient_norm" not in frozen
    assert not moved("world_model", before["world_model"])
    for name in others:  # A value that learns changes what the policy's return is.
        context.components[name].requires_grad_(False)
    first = workflow.update_controller(batch, phase=phase)
    for _ in range(30):
        better = workflow.update_controller(batch, phase=phase)
    assert better["train/imagined_return"] > first["train/imagined_return"]


@pytest.mark.parametrize(("task", "best"), [("Reach-v0", -1.3), ("ReachByChoice-v0", -2.2)])
def test_the_latent_actor_learns_to_reach(prepared, task, best):
    """From about -8 for random actions to nearly the best there is: -0.5, and -1.3 with three choices."""
    changes = [f"environment.id={task}", phases(f"eval/return >= {best}"), "training.total_steps=4_000"]
    outcome = prepared(None, *TINY, *changes).run()
    assert outcome.latest["eval/return"] >= best


def test_a_nan_is_named_with_its_phase_and_the_batch_is_kept(prepared):
    orchestrator = prepared(None, *TINY, phases())
    with torch.no_grad():
        orchestrator.context.components["world_model"].dynamics[0].weight[0, 0] = torch.nan
    with pytest.raises(PaddockError, match="NaN or Inf in loss in phase 'model', update_world_model"):
        orchestrator.run()
    assert list(orchestrator.run_folder.faults.glob("*/batch.safetensors"))


def test_images_are_refused_in_words():
    made = model()
    picture = ArraySpec(shape=(64, 64, 3), dtype="uint8", low=0, high=255)
    with pytest.raises(InputError, match="reads a vector, and camera is an image"):
        LatentModel(made.config, Spec(observation={"camera": picture}, action=made.spec.action))
