import json
import subprocess
import sys

import gymnasium
import numpy as np
import pytest
import torch

from paddock.core.errors import InputError
from paddock.rollout.actor import load_policy


@pytest.fixture
def policy(experiment, tmp_path):
    def make(*overrides):
        orchestrator = experiment(*overrides)
        orchestrator.run()
        return orchestrator.workflow.actor(), orchestrator.run_folder.policy / "latest"

    return make


NORMALIZED = ["components.observation_normalizer.enabled=true", "components.reward_normalizer.enabled=true"]


@pytest.mark.parametrize("overrides", [[], ["environment.id=Pendulum-v1", *NORMALIZED]])
def test_a_saved_policy_acts_the_same_without_its_config(policy, overrides):
    actor, folder = policy(*overrides)
    loaded = load_policy(folder)
    size = loaded.spec.observation["observation"].shape[0]
    observation = {"observation": torch.randn(50, size)}
    for deterministic in (True, False):
        torch.manual_seed(1)
        expected, _ = actor.act(observation, None, deterministic=deterministic)
        torch.manual_seed(1)
        actual, _ = loaded.act(observation, None, deterministic=deterministic)
        assert torch.equal(expected, actual)
    files = sorted(file.name for file in folder.iterdir())
    assert files == ["policy.json", "policy.safetensors", "record.json"]


def test_normalisation_travels_with_the_policy(policy):
    _actor, folder = policy("environment.id=Pendulum-v1", *NORMALIZED)
    loaded = load_policy(folder)
    statistics = loaded.parts["observation_normalizer"].statistics["observation"]
    assert statistics.count > 0
    assert loaded.parts["reward_normalizer"].statistics.count > 0


def test_for_people_one_observation_gives_one_action(policy):
    _, folder = policy("environment.id=Pendulum-v1")
    env = gymnasium.make("Pendulum-v1")
    observation, _ = env.reset(seed=0)
    action, _ = load_policy(folder).predict(observation)
    assert env.action_space.contains(action)
    actions, _ = load_policy(folder).predict(np.stack([observation] * 3), deterministic=False)
    assert actions.shape == (3, 1)


def test_actions_are_scaled_to_the_bounds_and_clipped(experiment):
    actor = experiment("environment.id=Pendulum-v1").workflow.actor()
    given = torch.tensor([[-9.0], [-1.0], [0.25], [1.0], [3.0]])
    assert actor.to_environment(given).flatten().tolist() == [-2.0, -2.0, 0.5, 2.0, 2.0]


def test_loading_needs_neither_hydra_nor_pickle(policy):
    _, folder = policy()
    code = (
        "import sys\nfrom pathlib import Path\n"
        "class Block:\n"
        "    def find_spec(self, name, *rest):\n"
        "        assert name.split('.')[0] not in ('hydra', 'tensorboard'), name\n"
        "sys.meta_path.insert(0, Block())\n"
        "from paddock.rollout.actor import load_policy\n"
        f"print(load_policy(Path({str(folder)!r})).predict([0, 0, 0, 0])[0])"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.stdout.strip() in ("0", "1"), result.stderr


@pytest.mark.parametrize("damage", ["missing", "json", "weights", "format", "target", "architecture"])
def test_what_is_no_policy_is_refused_in_words(policy, damage):
    _, folder = policy()
    description = json.loads((folder / "policy.json").read_text())
    if damage == "missing":
        (folder / "policy.safetensors").unlink()
    elif damage == "json":
        (folder / "policy.json").write_text("{")
    elif damage == "weights":
        (folder / "policy.safetensors").write_bytes(b"12345678")
    elif damage == "format":
        (folder / "policy.json").write_text(json.dumps({**description, "format": 9}))
    elif damage == "target":
        description["parts"]["policy"]["_target_"] = "os.system"
        (folder / "policy.json").write_text(json.dumps(description))
    else:
        description["parts"]["policy"]["network"]["hidden"] = [8]
        (folder / "policy.json").write_text(json.dumps(description))
    with pytest.raises(InputError, match="policy"):
        load_policy(folder)
