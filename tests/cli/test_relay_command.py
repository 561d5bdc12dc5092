"""`paddock relay` as a person runs it: certificates, invitations, a process that listens, and its status."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import time

import pytest

pytest.importorskip("grpc")
pytest.importorskip("cryptography")


@pytest.fixture
def started(tmp_path):
    """Start `paddock relay ARGUMENTS`; gives the process and the lines that it printed first."""
    running = []

    def start(*arguments: str) -> tuple[subprocess.Popen[str], list[str]]:
        process = subprocess.Popen(
            [sys.executable, "-m", "paddock", "relay", *arguments],
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        running.append(process)
        lines = [process.stdout.readline().strip()]
        while "Ctrl-C" not in lines[-1] and process.poll() is None:
            lines.append(process.stdout.readline().strip())
        return process, lines

    yield start
    for process in running:
        process.kill()
        process.communicate()


def ended(process: subprocess.Popen[str]) -> str:
    """End it as Ctrl-C does; what it wrote to standard error."""
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=10)
    assert process.returncode == 0
    return errors


def port_of(lines: list[str]) -> int:
    return int(lines[0].split(":")[-1].split(",")[0].split("port ")[-1].split(" ")[0])


def test_relay_command_runs_on_this_machine_without_certificates(started, paddock, tmp_path):
    process, lines = started("--port", "0", "--config-folder", "relay")
    assert lines[0].startswith("relay listening on 127.0.0.1:")
    token = json.loads((tmp_path / "relay" / "local.json").read_text())["token"]
    assert token not in "".join(lines)
    shown = paddock("relay", "status", "--config-folder", "relay")
    assert shown.returncode == 0
    assert "no trainer" in shown.stdout
    values = json.loads(paddock("relay", "status", "--json", "--config-folder", "relay").stdout)
    assert values["workers"] == []
    errors = ended(process)
    assert token not in errors
    gone = paddock("relay", "status", "--config-folder", "relay")
    assert gone.returncode != 0
    assert "no relay answers at 127.0.0.1" in gone.stderr


def test_relay_command_invites_and_revokes(started, paddock, tmp_path):
    home = {"PADDOCK_HOME": str(tmp_path / "home")}
    assert paddock("relay", "invite", "pc", **home).stderr.count("paddock relay init") == 1
    assert "127.0.0.1, port 4711" in paddock("relay", "init", "--address", "127.0.0.1:4711", **home).stdout
    assert "already has a relay's certificates" in paddock("relay", "init", **home).stderr
    made = paddock("relay", "invite", "pc", "--role", "worker", "--days", "30", **home)
    assert "pc.invitation.json: worker 'pc', 30 days, relay at 127.0.0.1:4711" in made.stdout
    file = tmp_path / "pc.invitation.json"
    assert file.stat().st_mode & 0o777 == 0o600
    folder = tmp_path / "home" / "relay"
    assert folder.stat().st_mode & 0o777 == 0o700
    assert all(path.stat().st_mode & 0o777 == 0o600 for path in folder.iterdir())
    key = json.loads(file.read_text())["key"].splitlines()[1]
    assert key not in made.stdout
    assert "exists already" in paddock("relay", "invite", "pc", **home).stderr
    assert "is invited already" in paddock("relay", "invite", "pc", "--output", "b.json", **home).stderr
    assert "Allowed: trainer, worker" in paddock("relay", "invite", "x", "--role", "driver", **home).stderr
    assert "cannot be the name" in paddock("relay", "invite", "../x", "--output", "c.json", **home).stderr
    assert "Did you mean 'pc'?" in paddock("relay", "revoke", "pcc", **home).stderr
    assert paddock("relay", "revoke", "pc", **home).returncode == 0
    assert paddock("relay", "invite", "pc", "--output", "again.json", **home).returncode == 0


def test_relay_command_logs_one_line_for_a_peer_that_tls_refuses(started, paddock, tmp_path):
    paddock("relay", "init", "--address", "127.0.0.1", "--config-folder", "relay")
    paddock("relay", "init", "--address", "127.0.0.1", "--config-folder", "other")
    process, lines = started("--port", "0", "--host", "127.0.0.1", "--config-folder", "relay")
    address = f"127.0.0.1:{port_of(lines)}"
    for folder, name in (("relay", "ours"), ("other", "foreign")):
        paddock("relay", "invite", name, "--address", address, "--config-folder", folder)
    mixed = json.loads((tmp_path / "foreign.invitation.json").read_text())
    mixed["authority"] = json.loads((tmp_path / "ours.invitation.json").read_text())["authority"]
    (tmp_path / "mixed.json").write_text(json.dumps(mixed))
    (tmp_path / "mixed.json").chmod(0o600)
    done = dialled(tmp_path, "mixed.json")
    assert "does not take the invitation of 'foreign'" in done["error"]
    assert done["seconds"] < 1
    assert dialled(tmp_path, "ours.invitation.json")["error"] == ""
    assert "no workers" in paddock("relay", "status", "--config-folder", "relay").stdout
    errors = ended(process)
    refused = [line for line in errors.splitlines() if "TLS refused" in line]
    assert len(refused) == 1
    assert "not of this relay's authority" in refused[0]
    secrets = [json.loads((tmp_path / "ours.invitation.json").read_text())["key"].splitlines()[1], mixed["key"]]
    assert not any(secret in errors for secret in secrets)


def test_relay_command_peers_hold_no_listening_socket(started, paddock, tmp_path):
    paddock("relay", "init", "--address", "127.0.0.1", "--config-folder", "relay")
    _, lines = started("--port", "0", "--config-folder", "relay")
    address = f"127.0.0.1:{port_of(lines)}"
    for role in ("worker", "trainer"):
        paddock("relay", "invite", role, "--role", role, "--address", address, "--config-folder", "relay")
        done = dialled(tmp_path, f"{role}.invitation.json", role)
        assert done["error"] == ""
        assert done["listening"] == []
        assert done["connections"] == 1


def dialled(folder, invitation: str, role: str = "worker") -> dict:
    """What a process sees that dials with an invitation, and which sockets it has then."""
    script = """
        import json, sys, time
        from pathlib import Path
        import psutil
        from paddock.core.errors import PaddockError
        from paddock.core.specs import ArraySpec, Spec
        from paddock.distributed.wire.addresses import Invitation
        from paddock.distributed.wire.dial import dial
        from paddock.distributed.wire.messages import Hello

        spec = Spec(observation={}, action=ArraySpec(shape=(1,), dtype="float32"))
        error, start = "", time.monotonic()
        try:
            link = dial(Invitation.read(Path(sys.argv[1])), Hello(sys.argv[2], "me", "1" * 16, spec=spec))
        except PaddockError as caught:
            error = str(caught)
        seconds = time.monotonic() - start
        sockets = psutil.Process().net_connections("inet")
        listening = [str(one.laddr) for one in sockets if one.status == "LISTEN"]
        established = sum(one.status == "ESTABLISHED" for one in sockets)
        print(json.dumps(dict(error=error, seconds=seconds, listening=listening, connections=established)))
    """
    command = [sys.executable, "-c", textwrap.dedent(script), invitation, role]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60, env=os.environ)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return json.loads(done.stdout)


def test_relay_command_comes_back_after_a_kill(started, paddock, tmp_path):
    process, lines = started("--port", "0", "--config-folder", "relay")
    process.kill()
    process.wait()
    start = time.monotonic()
    again, lines = started("--port", str(port_of(lines)), "--config-folder", "relay")
    assert paddock("relay", "status", "--config-folder", "relay").returncode == 0
    assert time.monotonic() - start < 20
    ended(again)


def test_relay_command_says_which_extra_is_missing(tmp_path):
    script = (
        "import sys; sys.modules['grpc'] = None; from paddock.cli.main import main; sys.argv[1:] = ['relay']; main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "PADDOCK_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 2
    assert "pip install 'paddock[relay]'" in done.stderr
