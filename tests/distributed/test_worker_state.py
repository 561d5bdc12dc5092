"""What a viewer gets to see of workers: `worker_state` of what they sent, and `worker_status`, the message of it."""

import math
import threading

import msgspec
import pytest

pytest.importorskip("grpc")

from paddock.control import messages as m
from paddock.control.service import worker_status
from paddock.distributed.endpoints import WorkerRecord
from paddock.distributed.experience import worker_state
from paddock.distributed.spool import Spool
from paddock.distributed.wire.link import Unreachable
from paddock.distributed.wire.messages import Hello
from paddock.distributed.worker import WorkerLoop
from paddock.orchestration.launch import Request, resolve
from paddock.rollout.experience import WorkerState

REPORT = {
    "steps_per_second": 20.0,
    "version_lag": 1.0,
    "return": -3.5,
    "length": 10.0,
    "round_trip": 0.002,
    "pause": "",
}


def record(numbers, *, name="pc", is_connected=True):
    return WorkerRecord(Hello("worker", name, "0" * 16, host="desk"), is_connected, numbers=numbers)


def test_worker_state_has_the_numbers_of_the_last_report():
    expected = WorkerState(
        "pc",
        "desk",
        True,
        version_lag=1.0,
        steps_per_second=20.0,
        round_trip=0.002,
        episode_return=-3.5,
        episode_length=10.0,
    )
    assert worker_state(record(REPORT)) == expected


def test_worker_state_leaves_out_what_is_no_number_and_writes_out_control_characters():
    state = worker_state(record({**REPORT, "return": "much", "pause": "full\x1b[2J"}, name="a\nb"))
    assert (state.name, state.pause, state.episode_return) == ("a\\nb", "full\\x1b[2J", None)


def test_worker_state_of_a_worker_that_left_does_not_pause():
    assert worker_state(record({**REPORT, "pause": "full"}, is_connected=False)).pause == ""


def test_worker_status_is_bounded_and_finite_whatever_a_worker_says():
    state = WorkerState("n" * 5_000, "h" * 5_000, True, episode_return=math.nan, round_trip=math.inf, pause="p" * 5_000)
    status = m.Status(
        status="running",
        agent_steps=1,
        seconds=1.0,
        steps_per_second=1.0,
        speed=None,
        workers=[worker_status(state)],
    )
    decoded = m.decode_run_message(m.encode(status))
    (worker,) = decoded.workers
    assert (len(worker.name), len(worker.host), len(worker.pause)) == (128, 128, 1_000)
    assert worker.episode_return is None
    assert worker.round_trip is None


def test_a_status_with_longer_texts_is_refused_by_the_server():
    worker = m.WorkerStatus(name="n" * 129, is_connected=True)
    status = m.Status(status="running", agent_steps=1, seconds=1.0, steps_per_second=1.0, speed=None, workers=[worker])
    with pytest.raises(msgspec.ValidationError, match="length <= 128"):
        m.decode_run_message(m.encode(status))


def unreachable(hello):
    raise Unreachable("there is no relay.")


def test_a_worker_reports_its_own_steps_per_second(tmp_path):
    """Over the time since its last report, waiting included; the collector's are of one step without any."""
    settings, _ = resolve(Request("sac_pendulum", None, None, None, None, ["experience=relay"]))
    spool = Spool.open(tmp_path / "spool", limit=2**20)
    loop = WorkerLoop(settings, unreachable, name="pc", spool=spool, experiment="sac_pendulum")
    loop.tally.steps, loop.tally.last = 200, {"steps_per_second": 3_000.0, "return": -5.0}
    loop._reported -= 4.0
    loop._report()
    numbers = loop.session._connection.notices["report"].numbers
    stop = threading.Event()
    stop.set()
    loop.run(stop)
    assert 5 < numbers["steps_per_second"] <= 50
    assert numbers["return"] == -5.0
