"""What counts as more than data, who signed it, and what is remembered."""

import json
import os
import stat
import sys

import pytest
import yaml

from paddock.config.compose import SHIPPED, compose
from paddock.core import permission
from paddock.core.permission import UntrustedError
from paddock.core.trust import KEY, check, checked, dangers, sign

ALERT = {"monitoring": {"alerts": {"x": {"when": "a > 0", "command": "id"}}}}
DANGEROUS = {
    "reward": {"environment": {"reward": {"custom": {"x": {"function": "notes.py:f"}}}}},
    "reward as one text": {"environment": {"reward": "notes.py:f"}},
    "bytes, which a schema reads as text": {"environment": {"reward": b"notes.py:f"}},
    "bytecode": {"environment": {"opponents": {"driver": "notes.pyc:f"}}},
    "target": {"components": {"policy": {"_target_": "os.system"}}},
    "target in a list": {"parts": [{"_target_": "lab.net.Wide"}]},
    "environment's module": {"environment": {"id": "evilmod:CartPole-v1"}},
    "an option of tomorrow": {"environment": {"arguments": {"env_id": "evilmod:X-v1"}}},
    "a device that is no device": {"environment": {"arguments": {"device": "cuda:Evil-v1"}}},
    "command": ALERT,
    "webhook": {"monitoring": {"alerts": {"x": {"webhook": "http://127.0.0.1:9/x"}}}},
    "tracker": {"logging": {"wandb": "online"}},
    "recording": {"buffers": {"x": {"folder": "elsewhere"}}},
    "absolute path": {"environment": {"track": "/etc/passwd"}},
    "home": {"environment": {"track": "~/x.csv"}},
    "upwards": {"environment": {"track": "laps/../../x.csv"}},
    "a name that is a path": {"buffers": {"../../x": {"capacity": 1}}},
}
HARMLESS = {
    "paddock's own": {"workflow": {"_target_": "paddock.workflows.ppo.PPO"}},
    "circuits, devices, datasets": {"device": "cuda:1", "track": "procedural:7", "sources": ["minari:D4RL/x-v2"]},
    "labels": {"tags": ["campaign:x"], "name": "x", "runs_dir": "/data/runs"},
    "conditions": {"training": {"phases": [{"until": "eval/return >= 900"}]}, "evaluation": {"metric": "eval/pace"}},
    "nothing to send": {
        "monitoring": {"alerts": {"x": {"webhook": None, "command": None}}},
        "logging": {"wandb": "off"},
    },
}


@pytest.mark.parametrize("values", DANGEROUS.values(), ids=DANGEROUS)
def test_trust_finds_what_a_saved_file_would_cause(values, tmp_path):
    assert len(dangers(values)) == 1
    with pytest.raises(UntrustedError, match="--trust"):
        check(tmp_path, values)


@pytest.mark.parametrize("values", HARMLESS.values(), ids=HARMLESS)
def test_trust_is_not_asked_for_data(values, tmp_path):
    assert check(tmp_path, values).found == []


def test_trust_is_not_asked_for_shipped_experiments(tmp_path):
    found = [one for file in SHIPPED.rglob("*.yaml") for one in dangers(yaml.safe_load(file.read_text()))]
    kept = [one for one in found if not one.key.startswith("defaults.")]  # Hydra's lists are not part of a run.
    folders = ("${runs_dir}/.replay", "${runs_dir}/replay-files/${name}")
    assert {str(one) for one in kept} == {f"buffers.replay.folder writes to the folder '{one}'" for one in folders}
    values = compose("dreamer_racing_camera", overrides=[f"runs_dir={tmp_path}"]).values
    (tmp_path / "run").mkdir()
    assert check(tmp_path / "run", values).is_saved  # It is beside the run, where it belongs.


def test_trust_by_signature_holds_for_its_maker_and_this_content_only(tmp_path, monkeypatch):
    run = tmp_path / "run"
    run.mkdir()
    monkeypatch.setenv("PADDOCK_HOME", str(tmp_path / "mine"))
    sign(run, ALERT)
    assert stat.S_IMODE((tmp_path / "mine" / KEY).stat().st_mode) == 0o600
    check(run, ALERT)
    run.rename(tmp_path / "moved")
    check(tmp_path / "moved", ALERT)
    other = {"monitoring": {"alerts": {"x": {"when": "a > 0", "command": "ie"}}}}
    with pytest.raises(UntrustedError, match="'ie'"):
        check(tmp_path / "moved", other)
    monkeypatch.setenv("PADDOCK_HOME", str(tmp_path / "another's"))
    with pytest.raises(UntrustedError, match=r"monitoring\.alerts\.x\.command runs the command 'id'"):
        check(tmp_path / "moved", ALERT)


def test_trust_is_remembered_by_content(tmp_path, monkeypatch):
    monkeypatch.setenv("PADDOCK_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "notes.py").write_text("def f(car): return 0.0\n")
    values = {"environment": {"opponents": {"driver": "notes.py:f"}}}
    check(tmp_path, values, trusts=True)
    check(tmp_path, values)
    (tmp_path / "notes.py").write_text("def f(car): return 1.0\n")
    with pytest.raises(UntrustedError, match=r"runs the Python file 'notes\.py:f'"):
        check(tmp_path, values)


def test_trust_is_asked_only_for_what_is_used_and_lists_the_whole(tmp_path):
    values = {**ALERT, "environment": {"id": "evilmod:X"}, "actor": {"size": 3}}
    check(tmp_path, values, used={"actor": values["actor"]})
    with pytest.raises(UntrustedError) as refused:
        check(tmp_path, values, used={"environment": values["environment"]})
    assert "evilmod" in str(refused.value)
    assert "'id'" in str(refused.value)


def test_trust_of_data_lets_nothing_run_inside(tmp_path):
    from paddock.config.schema import load_target
    from paddock.environments.gym import explained
    from paddock.sim.rewards.custom import load_reward

    (tmp_path / "notes.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\ndef f(car): return 0.0\n")
    with checked(tmp_path, {"environment": {"id": "CartPole-v1"}}):
        for attempt in (
            lambda: load_reward(f"{tmp_path}/notes.py:f"),
            lambda: load_target("os.system"),
            lambda: explained("evilmod:X-v1", lambda: None),
        ):
            with pytest.raises(UntrustedError, match="came from elsewhere"):
                attempt()
        later = permission.keep(load_reward)
    with pytest.raises(UntrustedError):
        later(f"{tmp_path}/notes.py:f")
    assert not (tmp_path / "ran").exists()


def test_trust_of_a_registered_package_does_not_extend_to_a_strangers_copy_of_it(tmp_path, monkeypatch):
    values = {"components": {"policy": {"_target_": "somelab.Wide"}}}
    copies = tmp_path / "run" / "code" / "packages"
    copies.mkdir(parents=True)
    (copies / "somelab.py").write_text("raise SystemExit('ran')\n")
    index = {"files": {}, "packages": {"somelab": {"copy": "packages/somelab.py", "original": "x", "sha256": "x"}}}
    (tmp_path / "run" / "code" / "index.json").write_text(json.dumps(index))
    monkeypatch.setenv("PADDOCK_HOME", str(tmp_path / "home"))
    with pytest.raises(UntrustedError):
        check(tmp_path / "run", values)
    monkeypatch.setenv("PADDOCK_PLUGINS", "somelab")
    with checked(tmp_path / "run", values) as (verdict, code):
        assert not verdict.may_sign
        assert code.packages == {}
        assert str(copies) not in sys.path


def test_trust_shows_no_control_characters(tmp_path):
    values = {"x": {"command": "\x1b[2Jrm -rf ~\r\nnothing to see"}}
    with pytest.raises(UntrustedError) as refused:
        check(tmp_path, values)
    assert "\x1b" not in str(refused.value)
    assert "?[2Jrm -rf ~??nothing to see" in str(refused.value)


def test_a_folder_whose_files_vanish_meanwhile_is_checked_all_the_same(tmp_path, monkeypatch):
    """A living run removes old checkpoints while another process looks at its folder."""
    (tmp_path / "gone").write_text("")
    (tmp_path / "out").symlink_to("/etc")
    walk = os.walk

    def walk_then_remove(root):
        for entry in walk(root):
            (tmp_path / "gone").unlink(missing_ok=True)
            yield entry

    monkeypatch.setattr(os, "walk", walk_then_remove)
    with pytest.raises(UntrustedError, match="out is a link that leads outside"):
        check(tmp_path, {}, with_links=True)
