"""What was imported from TMRL together with the TrackMania environment: experiments validate, actors drive the twin."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from tmrl_cases import DEFAULT_CONFIG, MLPActor

from paddock.config.compose import choices
from paddock.config.schema import instantiate, validate_target
from paddock.environments.spaces import spec_of
from paddock.orchestration.launch import Request, resolve
from paddock.rollout.actor import load_policy
from paddock.rollout.tmrl_actor import TmrlActor, TmrlActorConfig
from paddock.tmrl.configuration import translate
from paddock.tmrl.importing import import_tmrl

pytestmark = pytest.mark.skipif(
    "trackmania_lidar_sac" not in choices("experiment"), reason="this Paddock has no TrackMania environment"
)
TWIN = ["environment.game=twin", "environment.clock=virtual", "environment.trajectory=null"]


@pytest.mark.parametrize("interface", ["TM20FULL", "TM20LIDAR", "TM20LIDARPROGRESS"])
@pytest.mark.parametrize("algorithm", ["SAC", "REDQSAC"])
def test_tmrl_config_is_an_experiment_of_trackmania(tmp_path, interface, algorithm):
    config = json.loads(json.dumps(DEFAULT_CONFIG))
    config["ENV"]["RTGYM_INTERFACE"], config["ALG"]["ALGORITHM"] = interface, algorithm
    made = translate(config)
    lost = [row.key for row in made.rows if row.note == "the environment decides it by itself"]
    assert lost == []
    (tmp_path / "mine.yaml").write_text(made.to_yaml())
    settings, _ = resolve(Request(None, tmp_path / "mine.yaml"))
    values = settings.environment.to_dict()
    assert values["interface"] == made.layout.interface
    assert values["numbers"] == "tmrl"
    assert values["reward"]["rule"] == "trackmania_exact"
    assert values["sleep_at_reset"] == 1.5


def lidar_environment(tmp_path):
    """The twin as TMRL's lidar sees it, and its configuration."""
    config = json.loads(json.dumps(DEFAULT_CONFIG))
    config["ENV"]["RTGYM_INTERFACE"] = "TM20LIDAR"
    (tmp_path / "config.json").write_text(json.dumps(config))
    torch.manual_seed(0)
    (tmp_path / "weights").mkdir()
    torch.save(MLPActor().state_dict(), tmp_path / "weights" / "mine.tmod")
    done = import_tmrl(tmp_path, tmp_path / "out")
    assert done.problems == []
    settings, _ = resolve(Request(None, done.experiment, overrides=TWIN))
    return instantiate(settings.environment, 1), done


class LongestBeam:
    """Steers to the longest beam; beam 0 is right, 9 ahead, 18 left."""

    def __init__(self, observation_space, action_space) -> None:
        assert [space.shape for space in observation_space] == [(1,), (4, 19), (3,), (3,)]

    def act(self, obs, test=False):
        speed, rays, older, newer = obs
        assert speed.shape == (1,)
        assert older.shape == newer.shape == (3,)
        steer = (9 - int(np.argmax(rays[-1]))) / 9
        return np.array([1.0 if speed[0] < 15 else 0.0, 0.0, steer], np.float32)


def test_tmrl_actors_and_imported_policies_drive_the_twin(tmp_path, monkeypatch):
    environment, done = lidar_environment(tmp_path)
    try:
        spec = spec_of(environment)
        imported = load_policy(done.policies[0]["folder"])
        assert imported.spec == spec
        monkeypatch.setattr("paddock.components.controllers.tmrl_classes.load_class", lambda name: LongestBeam)
        target = "paddock.components.controllers.tmrl_classes.ActorPart"
        order = ["speed", "rays", "last_actions"]
        part = instantiate(
            validate_target({"_target_": target, "kind": "a:LongestBeam", "observation_order": order}), spec
        )
        stub = TmrlActor(TmrlActorConfig(_target_="paddock.rollout.tmrl_actor.TmrlActor"), {"actor": part}, spec)
        observation, _ = environment.reset(seed=1)
        for actor, steps in ((imported, 3), (stub, 40)):
            for _ in range(steps):
                seen = {name: torch.from_numpy(part) for name, part in observation.items()}
                with torch.inference_mode():
                    action, _ = actor.act(seen, None, deterministic=True)
                observation = environment.step(actor.to_environment(action))[0]
        assert float(observation["speed"][0, 0]) > 3.0  # m/s: the car has moved
    finally:
        environment.close()
