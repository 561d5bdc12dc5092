"""Acting by chunks: the plan is kept in the actor's state, executed receding-horizon, and a new one never jumps."""

from itertools import pairwise

import pytest
import torch

from paddock.components.controllers.chunk_policy import ChunkPolicy, ChunkPolicyConfig
from paddock.core.errors import InputError
from paddock.core.specs import ArraySpec, Spec
from paddock.rollout.actor import load_policy
from paddock.rollout.chunk_actor import ChunkActor, ChunkActorConfig

SPEC = Spec(
    observation={"observation": ArraySpec(shape=(3,), dtype="float32")},
    action=ArraySpec(shape=(2,), dtype="float32", low=-1.0, high=1.0),
)
CHOICES = Spec(observation=SPEC.observation, action=ArraySpec(shape=(), dtype="int64", choices=4))
FLOW = {"_target_": "paddock.components.generators.flow_matching.FlowMatching", "steps": 2}
REGRESSION = {"_target_": "paddock.components.generators.regression.Regression"}
NETWORK = {"_target_": "paddock.components.networks.film_mlp.FilmMLP", "width": 16, "blocks": 1}


def policy_of(spec=SPEC, generator=FLOW, **options):
    torch.manual_seed(1)
    config = ChunkPolicyConfig(
        _target_="paddock.components.controllers.chunk_policy.ChunkPolicy",
        generator=generator, network=NETWORK, **{"history": 2, "horizon": 8, **options},
    )  # fmt: skip
    return ChunkPolicy(config, spec)


def actor_of(policy, spec=SPEC, **options):
    config = ChunkActorConfig(_target_="paddock.rollout.chunk_actor.ChunkActor", policy="policy", **options)
    return ChunkActor(config, {"policy": policy}, spec).eval()


def watched(policy, monkeypatch):
    """The histories that plans were asked for, and the plans."""
    seen, plan = [], policy.plan

    def planned(condition, given, count, *, deterministic):
        made = plan(condition, given, count, deterministic=deterministic)
        seen.append((condition.clone(), count.clone(), made.clone()))
        return made

    monkeypatch.setattr(policy, "plan", planned)
    return seen


def test_chunk_actor_takes_its_plan_in_order_and_plans_again(monkeypatch):
    policy = policy_of()
    actor, plans = actor_of(policy, execute=3), watched(policy, monkeypatch)
    state, taken = actor.initial_state(2), []
    for time in range(7):
        action, state = actor.act({"observation": torch.full((2, 3), float(time) / 10)}, state, deterministic=False)
        taken.append(action)
    assert len(plans) == 3
    for time, action in enumerate(taken):
        assert torch.equal(action, plans[time // 3][2][:, time % 3])
    # At the start the past is as the present; later it is the past.
    assert plans[0][0][0, :, 0].tolist() == pytest.approx([0.0, 0.0])
    assert plans[1][0][0, :, 0].tolist() == pytest.approx([0.2, 0.3])


def test_chunk_actor_begins_anew_only_where_an_episode_begins(monkeypatch):
    policy = policy_of()
    actor, plans = actor_of(policy, execute=4), watched(policy, monkeypatch)
    state = actor.initial_state(3)
    for _ in range(2):
        _, state = actor.act({"observation": torch.randn(3, 3)}, state, deterministic=False)
    state = actor.forget(state, torch.tensor([False, True, False]).numpy())
    _, state = actor.act({"observation": torch.ones(3, 3)}, state, deterministic=False)
    assert len(plans) == 2
    assert plans[1][0].shape[0] == 1
    assert torch.equal(plans[1][0][0, 0], plans[1][0][0, 1])
    assert state["place"].tolist() == [3, 1, 3]


@pytest.mark.parametrize("generator", [FLOW, REGRESSION], ids=["flow", "regression"])
def test_new_chunk_keeps_what_the_last_one_committed_to(generator, monkeypatch):
    policy = policy_of(generator=generator, prefix=3)
    actor, plans = actor_of(policy, execute=4, commit=3), watched(policy, monkeypatch)
    state, taken = actor.initial_state(2), []
    for _ in range(9):
        action, state = actor.act({"observation": torch.randn(2, 3)}, state, deterministic=False)
        taken.append(action)
    assert [one[1].tolist() for one in plans] == [[0, 0], [3, 3], [3, 3]]
    for before, after in pairwise(plans):
        assert torch.equal(before[2][:, 4:7], after[2][:, :3])
        assert not torch.equal(before[2][:, 7], after[2][:, 3])
    assert torch.equal(torch.stack(taken[4:7], 1), plans[0][2][:, 4:7])


def test_chunk_actor_without_noise_is_deterministic_and_with_noise_is_not():
    policy = policy_of()
    actor, seen = actor_of(policy), {"observation": torch.randn(2, 3)}
    alike = [actor.act(seen, None, deterministic=True)[0] for _ in range(2)]
    assert torch.equal(*alike)
    assert not torch.equal(*[actor.act(seen, None, deterministic=False)[0] for _ in range(2)])


def test_chunk_actor_is_saved_with_its_ranges_and_loads_without_config(tmp_path):
    policy = policy_of(prefix=2)
    policy.fit({"observation": (torch.full((3,), -4.0), torch.full((3,), 2.0))}, (-torch.ones(2), torch.zeros(2)))
    actor = actor_of(policy, execute=2, commit=2)
    actor.save(tmp_path / "policy")
    loaded = load_policy(tmp_path / "policy")
    state, other = actor.initial_state(1), loaded.initial_state(1)
    for _ in range(5):
        seen = {"observation": torch.randn(1, 3)}
        action, state = actor.act(seen, state, deterministic=True)
        found, other = loaded.act(seen, other, deterministic=True)
        assert torch.equal(action, found)
        assert ((action >= -1) & (action <= 0)).all()  # within what was demonstrated


def test_chunk_actor_chooses_among_discrete_actions():
    action, _ = actor_of(policy_of(CHOICES), CHOICES).act({"observation": torch.randn(5, 3)}, None, deterministic=False)
    assert action.shape == (5,)
    assert action.dtype == torch.int64


def test_chunk_policy_sees_images_through_an_encoder():
    image, speed = ArraySpec(shape=(16, 16, 3), dtype="uint8"), ArraySpec(shape=(1,), dtype="float32")
    spec = Spec(observation={"image": image, "speed": speed}, action=SPEC.action)
    cnn = {
        "_target_": "paddock.components.networks.cnn.CNN",
        "channels": [4], "kernels": [4], "strides": [4], "hidden": [8], "activation": "relu",
    }  # fmt: skip
    policy = policy_of(spec, encoder=cnn)
    torch.nn.init.normal_(policy.network.film.weight)  # They begin as zeros.
    seen = {"image": torch.randint(256, (2, 16, 16, 3), dtype=torch.uint8), "speed": torch.rand(2, 1)}
    first, _ = actor_of(policy, spec).act(seen, None, deterministic=True)
    other, _ = actor_of(policy, spec).act({**seen, "image": 255 - seen["image"]}, None, deterministic=True)
    assert first.shape == (2, 2)
    assert not torch.equal(first, other)
    with pytest.raises(InputError, match="needs an encoder"):
        policy_of(spec)


def test_chunk_actor_refuses_what_does_not_fit():
    with pytest.raises(InputError, match="together more than horizon"):
        actor_of(policy_of(prefix=4), execute=6, commit=4)
    with pytest.raises(InputError, match="more than prefix"):
        actor_of(policy_of(prefix=1), execute=4, commit=2)
