"""Real processes on the loopback: every transition that was acknowledged is in the trainer's buffer, once."""

import threading

import pytest

pytest.importorskip("grpc")

from flaky_proxy import FlakyProxy
from relay_training import Cluster, check_counts, kill_at_random, transitions_in_buffer

CHUNK = 16
pytestmark = pytest.mark.timeout(300)


def test_relay_delivers_once_while_every_process_is_killed(tmp_path):
    cluster = Cluster(tmp_path / "all")
    try:
        cluster.start_relay()
        cluster.start_others()
        cluster.wait_until_learning(120)
        killed = kill_at_random(cluster, kills=6, seconds=15, seed=2)
        assert {name.partition("-")[0] for name in killed} == {"relay", "trainer", "worker"}
        cluster.wait_until_learning(120)
        cluster.stop()
        counts = check_counts(transitions_in_buffer(cluster.run_folder()), cluster.folder / "lives")
    finally:
        cluster.close()
    workers_killed = sum(name.startswith("worker") for name in killed)
    # A killed worker takes along what it had not written to its spool yet: a chunk, and what waits for the disk.
    assert 0 <= counts["begun"] - counts["in the buffer"] <= 20 * CHUNK * workers_killed
    assert counts["processes"] == 2 + workers_killed


def test_relay_delivers_once_through_connections_that_break(tmp_path):
    cluster = Cluster(tmp_path / "all", relay_folder="proxy")
    proxy = FlakyProxy(cluster.folder / "relay", cluster.folder / "proxy")
    try:
        cluster.start_relay()
        proxy.write_address()
        cluster.start_others()
        cluster.wait_until_learning(120)
        shaking = threading.Thread(target=proxy.shake, kwargs={"seconds": 12, "every": 0.8})
        shaking.start()
        shaking.join()
        cluster.wait_until_learning(120)
        cluster.stop()
        counts = check_counts(transitions_in_buffer(cluster.run_folder()), cluster.folder / "lives")
    finally:
        cluster.close()
        proxy.close()
    assert proxy.broken >= 5
    assert counts["begun"] == counts["in the buffer"], "no process was killed, so nothing is lost"
