"""ONNX files give the actions of the policies that they were made of, on random inputs, step after step."""

import json

import numpy as np
import pytest
import torch

from paddock.core.errors import InputError
from paddock.rollout.actor import RandomActor, RandomActorConfig, load_policy
from paddock.rollout.onnx_export import export_onnx

onnx = pytest.importorskip("onnx", reason="needs the extra onnx")
onnxruntime = pytest.importorskip("onnxruntime", reason="needs the extra onnx")
pytest.importorskip("onnxscript", reason="needs the extra onnx")

CASES = {
    "normalised with bounds": ("sac_pendulum", ["components.observation_normalizer.enabled=true"]),
    "choices": ("dqn_cartpole", []),
    "memory": ("ppo_recall", []),
    "pictures": (
        "ppo_carracing",
        ["environment.num_envs=2", "workflow.rollout_steps=64", "workflow.minibatch_size=32"],
    ),
}


def drawn(spec, random, copies):
    found = {}
    for name, part in spec.observation.items():
        shape = (copies, *part.shape)
        values = random.integers(0, 256, shape) if part.dtype == "uint8" else random.normal(size=shape)
        found[name] = values.astype(part.dtype)
    return found


@pytest.mark.parametrize("case", CASES)
def test_export_policy_to_onnx_gives_the_same_actions(prepared, tmp_path, case):
    experiment, options = CASES[case]
    if case == "pictures":
        pytest.importorskip("Box2D", reason="needs the extra box2d")
    orchestrator = prepared(experiment, *options)
    actor, spec = orchestrator.workflow.actor(), orchestrator.context.spec
    orchestrator.context.experience.close()
    random = np.random.default_rng(1)
    normalizer = orchestrator.context.components["observation_normalizer"]
    normalizer.update({name: torch.as_tensor(part) for name, part in drawn(spec, random, 64).items()})
    actor.save(tmp_path / "policy")
    actor = load_policy(tmp_path / "policy").eval()
    values = export_onnx(actor, tmp_path / "policy.onnx")
    assert values["largest_difference"] < 1e-3
    onnx.checker.check_model(str(tmp_path / "policy.onnx"))
    session = onnxruntime.InferenceSession(tmp_path / "policy.onnx", providers=["CPUExecutionProvider"])
    assert [one.name for one in session.get_inputs()] == values["inputs"]
    described = json.loads(session.get_modelmeta().custom_metadata_map["paddock"])
    assert described["spec"] == json.loads(json.dumps(spec.to_dict()))
    for copies in (1, 5):
        state = actor.initial_state(copies)
        fed = {f"state.{name}": part.numpy() for name, part in (state or {}).items()}
        for _ in range(4):
            seen = drawn(spec, random, copies)
            expected, state = actor.predict(seen, state, deterministic=True)
            given = {**{f"observation.{name}": part for name, part in seen.items()}, **fed}
            outputs = dict(zip(values["outputs"], session.run(values["outputs"], given), strict=True))
            np.testing.assert_allclose(outputs.pop("action"), expected, atol=1e-4)
            fed = {name.removeprefix("next_"): part for name, part in outputs.items()}
    if case == "memory":
        assert fed
        for name, part in state.items():
            np.testing.assert_allclose(fed[f"state.{name}"], part, atol=1e-4)


def test_export_policy_says_why_it_cannot(tmp_path, prepared):
    class Torn(RandomActor):
        """Acts by something that no graph can hold."""

        def act(self, observation, state, *, deterministic):
            return torch.tensor(float(next(iter(observation.values())).sum().item() > np.random.rand())), state  # noqa: NPY002

    spec = prepared("ppo_cartpole").context.spec
    with pytest.raises(InputError, match=r"cannot be written as ONNX|another action"):
        export_onnx(Torn(RandomActorConfig(_target_="it"), {}, spec), tmp_path / "policy.onnx")
    assert not (tmp_path / "policy.onnx").exists()
