"""`paddock tmrl import`: every key of config.json, weights of a .tcpt, whole folders, and what is refused."""

from __future__ import annotations

import json
import os
import pickle

import numpy as np
import pytest
import torch
import yaml
from tmrl_cases import DEFAULT_CONFIG, pickled_training

from paddock.config.compose import compose
from paddock.core.errors import InputError
from paddock.core.reading import DamagedError
from paddock.environments.trackmania.trajectory import load_trajectory
from paddock.orchestration.launch import Request, resolve
from paddock.rollout.actor import load_policy
from paddock.tmrl import configuration
from paddock.tmrl.checkpoints import read_checkpoint
from paddock.tmrl.configuration import translate
from paddock.tmrl.critics import critics_from
from paddock.tmrl.importing import import_tmrl
from paddock.tmrl.keys import ALGORITHM, ENVIRONMENT, REWARD, RTGYM, TOP
from paddock.tmrl.layouts import LIDAR, Layout


def changed(**sections) -> dict:
    config = json.loads(json.dumps(DEFAULT_CONFIG))
    for key, value in sections.items():
        config[key] = {**config[key], **value} if isinstance(value, dict) else value
    return config


def test_tmrl_config_has_an_answer_for_every_key_of_the_reference():
    made = translate(DEFAULT_CONFIG)
    rows = {row.key: row for row in made.rows}
    leaves = {*DEFAULT_CONFIG, *(f"ALG.{key}" for key in DEFAULT_CONFIG["ALG"])} - {"ALG", "ENV"}
    leaves |= {f"ENV.{key}" for key in DEFAULT_CONFIG["ENV"]} - {"ENV.RTGYM_CONFIG", "ENV.REWARD_CONFIG"}
    leaves |= {f"ENV.{name}.{key}" for name in ("RTGYM_CONFIG", "REWARD_CONFIG") for key in DEFAULT_CONFIG["ENV"][name]}
    assert set(rows) == leaves
    for row in made.rows:
        assert row.outcome in ("mapped", "not mapped")
        assert row.option if row.outcome == "mapped" else row.note


def test_tmrl_config_becomes_these_options():
    values = translate(DEFAULT_CONFIG).values
    hooks = "training.phases.joint.workflow_hooks"
    expected = {
        "name": "SAC_4_imgs_pretrained",
        "device": "auto",
        "workflow.gamma": 0.995,
        "workflow.tau": 0.005,
        "components.temperature.learned": False,
        "components.temperature.initial": 0.01,
        "components.temperature.target_entropy": -0.5,
        "optimizers.policy.learning_rate": 1e-5,
        "optimizers.critics.learning_rate": 5e-5,
        "optimizers.temperature.learning_rate": 3e-4,
        "buffers.replay.capacity": 1_000_000,
        "buffers.replay.batch_size": 256,
        "training.phases.seed.duration_steps": 1_000,
        "training.phases.joint.duration_updates": 200_000_000,
        f"{hooks}.update.ratio": 4.0,
        f"{hooks}.update.at_most": 200,
        "experience.publish_every": 200,
        "environment.time_step_duration": 0.05,
        "environment.start_obs_capture": 0.04,
        "environment.act_buf_len": 2,
        "environment.ep_max_length": 1_000,
    }
    assert {key: values.get(key) for key in expected} == expected


def test_tmrl_config_never_gives_secrets_away(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(changed(MY_TOKEN="a-third-secret")))
    done = import_tmrl(tmp_path / "config.json", tmp_path / "out")
    written = "".join(path.read_text() for path in (tmp_path / "out").rglob("*") if path.is_file())
    assert done.experiment is not None
    for secret in (DEFAULT_CONFIG["PASSWORD"], DEFAULT_CONFIG["WANDB_KEY"], "a-third-secret"):
        assert secret not in written


def test_tmrl_config_reports_unknown_keys_and_accepts_leftovers():
    made = translate(changed(MEMORY_SIZ=5, DCAC=False, ACK_TIMEOUT_WORKER_TO_SERVER=1.0, ALG={"GAMA": 0.9}))
    rows = {row.key: row for row in made.rows}
    assert rows["MEMORY_SIZ"].outcome == rows["ALG.GAMA"].outcome == "unknown"
    assert "MEMORY_SIZE" in rows["MEMORY_SIZ"].note
    assert "GAMMA" in rows["ALG.GAMA"].note
    assert rows["DCAC"].outcome == rows["ACK_TIMEOUT_WORKER_TO_SERVER"].outcome == "not mapped"


def test_tmrl_config_with_text_in_place_of_numbers_is_refused():
    for config in (changed(BATCH_SIZE="${oc.env:HOME}"), changed(ALG={"GAMMA": "0.9"}), changed(CUDA_TRAINING=1)):
        with pytest.raises(InputError, match=r"config\.json"):
            translate(config)


def test_tmrl_config_cannot_smuggle_interpolations_into_the_yaml():
    made = translate(changed(RUN_NAME="${oc.env:HOME}", WANDB_PROJECT="a: b\n_target_: x"))
    assert "$" not in made.to_yaml()
    assert yaml.safe_load(made.to_yaml())["logging"]["wandb_project"] == "a--b-_target_--x"


@pytest.mark.parametrize("algorithm", ["SAC", "REDQSAC"])
def test_tmrl_config_is_an_experiment_that_validates(monkeypatch, tmp_path, algorithm):
    """All options but those of the game's environment, on a real-time environment with the same options of rtgym."""
    monkeypatch.setattr(configuration, "_only_known", lambda made: None)
    made = translate(changed(ALG={"ALGORITHM": algorithm}))
    made.base = "sac_realtime"
    own = {*RTGYM} - {"interface"}
    made.values = {
        key: value
        for key, value in made.values.items()
        if not key.startswith("environment.") or key.removeprefix("environment.") in own
    }
    file = tmp_path / "imported.yaml"
    file.write_text(made.to_yaml())
    settings, _ = resolve(Request(None, file))
    assert settings.workflow.gamma == 0.995
    assert settings.buffers["replay"].batch_size == 256
    hooks = settings.training.phases["joint"].workflow_hooks
    if algorithm == "SAC":
        assert hooks["update"].ratio == 4.0
    else:
        assert hooks["update_critics"].ratio == 4.0
        assert hooks["update_policy"].ratio == pytest.approx(0.2)
        assert settings.components["critics"].ensemble_size == 10
    assert settings.experience.publish_every == 200


def test_tmrl_config_keys_name_options_once():
    rules = {**TOP, **ALGORITHM, **ENVIRONMENT, **RTGYM, **REWARD}
    for key, rule in rules.items():
        text = getattr(rule, "option", None) or rule.reason
        assert text, key


def test_tcpt_gives_weights_and_counters(tmp_path):
    data, training = pickled_training()
    (tmp_path / "run_t.tcpt").write_bytes(data)
    state = read_checkpoint(tmp_path / "run_t.tcpt")
    assert state.counters["total_updates"] == 60_000
    assert state.samples == 3
    assert state.log_alpha == pytest.approx(np.log(0.01))
    for name in ("actor", "q1", "q2"):
        expected = getattr(training.agent.model, name).state_dict()
        assert set(state.networks[name]) == set(expected)
        assert all(torch.equal(state.networks[name][key], expected[key]) for key in expected)


def test_tcpt_critics_value_as_they_did(tmp_path):
    _, training = pickled_training()
    model = training.agent.model
    networks = {name: dict(getattr(model, name).state_dict()) for name in ("q1", "q2")}
    critics = critics_from(networks, Layout("lidar"))
    speed, lidar, actions, action = torch.rand(7, 1), torch.rand(7, 4, 19), torch.rand(7, 6), torch.rand(7, 3)
    expected = [q((speed, lidar.flatten(1), actions), action) for q in (model.q1, model.q2)]
    found = critics({"speed": speed, LIDAR: lidar, "last_actions": actions}, action)
    torch.testing.assert_close(found, torch.stack(expected), atol=1e-5, rtol=1e-5)


class Running:
    def __init__(self, command: str) -> None:
        self.command = command

    def __reduce__(self):
        return os.system, (self.command,)


def test_malicious_tcpt_is_refused_and_nothing_runs(tmp_path):
    mark, path = tmp_path / "ran", tmp_path / "run_t.tcpt"

    def in_memory(training):
        training.memory.data.append(Running(f"touch {mark}"))

    def in_weights(training):
        training.agent.alpha_t = Running(f"touch {mark}")

    class Storage:
        """A pickled storage that hides a command in the bytes of its own stream."""

        def __reduce__(self):
            inner = b"".join(pickle.dumps(one, 2) for one in (0x1950A86A20F9469CFC6C, 1001, {"little_endian": True}))
            return torch.storage._load_from_bytes, (inner + pickle.dumps(Running(f"touch {mark}"), 2),)

    def in_storage(training):
        training.agent.alpha_t = Storage()

    for change in (in_memory, in_weights, in_storage):
        path.write_bytes(pickled_training(change)[0])
        with pytest.raises(DamagedError, match=r"run_t\.tcpt' cannot be read: it names 'posix\.system'"):
            read_checkpoint(path)
    assert not mark.exists()


def test_tcpt_of_other_classes_needs_their_package(tmp_path):
    path = tmp_path / "run_t.tcpt"
    path.write_bytes(pickled_training()[0].replace(b"tmrl.custom.custom_algorithms", b"tmzz.custom.custom_algorithms"))
    with pytest.raises(DamagedError, match=r"tmzz\.custom"):
        read_checkpoint(path)
    assert read_checkpoint(path, ("tmzz",)).counters["epoch"] == 3


def tmrl_data(folder, name="SAC_4_LIDAR"):
    """A TmrlData folder with a configuration, a demonstration, weights and a checkpoint."""
    for inner in ("config", "reward", "weights", "checkpoints", "dataset", "resources"):
        (folder / inner).mkdir(parents=True)
    config = changed(RUN_NAME=name, ENV={"RTGYM_INTERFACE": "TM20LIDAR", "WINDOW_WIDTH": 958, "WINDOW_HEIGHT": 488})
    (folder / "config" / "config.json").write_text(json.dumps(config))
    points = np.stack([np.arange(0, 50, 0.1), np.full(500, 10.0), np.zeros(500)], 1)
    (folder / "reward" / "reward.pkl").write_bytes(pickle.dumps(points))
    data, training = pickled_training()
    (folder / "checkpoints" / f"{name}_t.tcpt").write_bytes(data)
    torch.save(training.agent.model.actor.state_dict(), folder / "weights" / f"{name}.tmod")
    (folder / "dataset" / "data.pkl").write_bytes(b"\x80\x02cos\nsystem\n.")  # Never looked at.
    return points, training


def test_tmrl_folder_is_imported_as_experiment_trajectory_and_policies(tmp_path):
    points, training = tmrl_data(tmp_path / "TmrlData")
    done = import_tmrl(tmp_path / "TmrlData", tmp_path / "out")
    assert done.problems == []
    np.testing.assert_array_equal(load_trajectory(tmp_path / "out" / "reward.safetensors").points, points)
    expected = training.agent.model.actor.state_dict()
    for folder in ("SAC_4_LIDAR", "SAC_4_LIDAR_t-checkpoint"):
        policy = load_policy(tmp_path / "out" / "policies" / folder).parts["policy"]
        assert all(torch.equal(value, expected[name]) for name, value in policy.state_dict().items())
    written = yaml.safe_load((tmp_path / "out" / "SAC_4_LIDAR.yaml").read_text())
    assert written["defaults"] == ["trackmania_lidar_sac", {"override /experience": "workers"}]
    assert set(written["initial_weights"]) == {"policy", "critics", "temperature"}
    assert written["components"]["policy"]["parts"] == ["speed", LIDAR, "last_actions"]


def test_imported_weights_begin_a_run_of_sac_on_the_same_spaces(tmp_path):
    tmrl_data(tmp_path / "TmrlData")
    import_tmrl(tmp_path / "TmrlData", tmp_path / "out")
    written = yaml.safe_load((tmp_path / "out" / "SAC_4_LIDAR.yaml").read_text())
    from paddock.config.schema import instantiate, validate_target
    from paddock.orchestration.initial_weights import load_initial_weights

    spec = Layout("lidar").spec()
    composed = compose("sac_pendulum", overrides=["components.critics.hidden=[256,256]"]).values["components"]
    parts = {**composed, "policy": written["components"]["policy"]}
    built = {name: instantiate(validate_target(parts[name]), spec) for name in written["initial_weights"]}
    load_initial_weights(written["initial_weights"], built)
    assert float(built["temperature"]().detach()) == pytest.approx(0.01)


def test_tmrl_files_that_are_refused_do_not_keep_others_out(tmp_path):
    tmrl_data(tmp_path / "TmrlData")
    mark = tmp_path / "ran"
    (tmp_path / "TmrlData" / "reward" / "reward.pkl").write_bytes(pickle.dumps(Running(f"touch {mark}")))
    (tmp_path / "TmrlData" / "weights" / "cut.tmod").write_bytes(b"PK\x03\x04 and nothing more")
    done = import_tmrl(tmp_path / "TmrlData", tmp_path / "out")
    assert len(done.problems) == 2
    assert len(done.policies) == 2
    assert not mark.exists()


def test_tmrl_import_writes_over_nothing(tmp_path):
    tmrl_data(tmp_path / "TmrlData")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine").write_text("x")
    with pytest.raises(InputError, match="--to"):
        import_tmrl(tmp_path / "TmrlData", tmp_path / "out")
    with pytest.raises(InputError, match="TmrlData"):
        import_tmrl(tmp_path / "nowhere", tmp_path / "other")
