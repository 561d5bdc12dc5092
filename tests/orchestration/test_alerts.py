"""Alert rules in real runs: what holds, what is done about it, and that a deaf receiver does not hurt."""

import http.server
import json
import os
import signal
import threading
import time

import pytest

from paddock.core.errors import InputError
from paddock.experiments.store.store import open_store

EVALUATING = (
    "training.phases=[{name: train, buffer: rollout, workflow_hooks: [{collect: {steps: 128}}, update,"
    " {evaluate: {every_steps: 128}}]}]"
)


def rule(name, text):
    return f"monitoring.alerts.{name}={{{text}}}"


def events(orchestrator, kind):
    return [event for event in orchestrator.run_folder.read_events() if event["event"] == kind]


def test_a_condition_is_told_once_and_the_run_goes_on(experiment, caplog):
    orchestrator = experiment(rule("easy", "when: 'collect/return > 0'"))
    outcome = orchestrator.run()
    assert outcome.status == "finished"
    (alert,) = events(orchestrator, "alert")
    assert alert["alert"] == "easy"
    assert "collect/return is" in alert["reason"]
    assert "alert easy at step 128" in caplog.text


def test_patience_counts_points_in_a_row(experiment):
    orchestrator = experiment(rule("easy", "when: 'collect/return > 0', patience: 3, action: stop"))
    outcome = orchestrator.run()
    assert outcome.status == "stopped"
    assert events(orchestrator, "alert")[0]["agent_steps"] == 384
    assert events(orchestrator, "stopped")[0]["by"] == "alert easy"


def test_a_metric_that_is_not_finite(experiment):
    orchestrator = experiment()
    update = orchestrator.workflow.update
    orchestrator.workflow.update = lambda batch, phase: {
        **update(batch, phase=phase),
        "train/odd": float("nan"),
    }
    orchestrator.run()
    assert events(orchestrator, "alert")[0]["reason"] == "train/odd not finite", "a rule that ships"


def test_no_improvement_over_evaluations(experiment):
    orchestrator = experiment(
        EVALUATING, rule("slow", "when: no improvement, patience: 2, action: stop"), "training.total_steps=2048"
    )
    orchestrator._evaluator = lambda *args, **kwargs: type("Same", (), {
        "metrics": lambda self, prefix="eval/": {f"{prefix}return": 7.0}, "details": lambda self: {}})()  # fmt: skip
    assert orchestrator.run().status == "stopped"
    assert "has not improved on 7 in 2 evaluations" in events(orchestrator, "alert")[0]["reason"]


def test_silence_is_noticed_from_outside_the_loop(experiment):
    orchestrator = experiment(
        rule("stalled", "when: stalled, seconds: 0.2, action: stop"), "logging.every_steps=100_000"
    )
    collect = orchestrator.workflow.collect_step
    orchestrator.workflow.collect_step = lambda *args, **kwargs: (time.sleep(0.3), collect(*args, **kwargs))[1]
    assert orchestrator.run().status == "stopped"
    assert "nothing has been logged" in events(orchestrator, "alert")[0]["reason"]


def test_a_webhook_and_a_command_are_told(experiment, tmp_path):
    received = []

    class Receiver(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            received.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *args):
            pass

    server = http.server.HTTPServer(("127.0.0.1", 0), Receiver)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{server.server_port}/"
    note = tmp_path / "note.txt"
    orchestrator = experiment(
        rule("easy", f"when: 'collect/return > 0', webhook: '{address}', command: 'echo $PADDOCK_ALERT > {note}'")
    )
    orchestrator.run()
    server.shutdown()
    server.server_close()
    assert received[0]["alert"] == "easy"
    assert received[0]["run"] == orchestrator.run_folder.name
    assert note.read_text() == "easy\n"


def test_who_cannot_be_told_does_not_stop_the_run(experiment):
    orchestrator = experiment(
        rule("easy", "when: 'collect/return > 0', webhook: 'http://127.0.0.1:9/', command: 'exit 3'")
    )
    assert orchestrator.run().status == "finished"
    assert len(events(orchestrator, "alert_undelivered")) == 2


def test_a_paused_run_waits_is_shown_as_paused_and_goes_on(experiment, tmp_path):
    orchestrator = experiment(rule("easy", "when: 'collect/return > 0', action: pause"))
    seen = []

    def visitor():
        while not events(orchestrator, "paused"):
            time.sleep(0.02)
        with orchestrator.run_folder.lock():
            seen.extend(record.status for record in open_store(tmp_path).summaries())
        os.kill(os.getpid(), signal.SIGCONT)

    thread = threading.Thread(target=visitor)
    thread.start()
    outcome = orchestrator.run()
    thread.join()
    assert seen == ["paused"]
    assert outcome.status == "finished"
    assert events(orchestrator, "continued")[0]["paused_seconds"] >= 0
    assert orchestrator.run_folder.read_manifest()["status"] == "finished"


def test_a_paused_run_can_be_ended(experiment):
    orchestrator = experiment(rule("easy", "when: 'collect/return > 0', action: pause"))

    def visitor():
        while not events(orchestrator, "paused"):
            time.sleep(0.02)
        os.kill(os.getpid(), signal.SIGTERM)

    thread = threading.Thread(target=visitor)
    thread.start()
    outcome = orchestrator.run()
    thread.join()
    assert outcome.status == "stopped"


def test_the_machine_is_among_the_metrics(experiment):
    orchestrator = experiment("monitoring.system_every_seconds=0.01", "training.total_steps=4096")
    orchestrator.run()
    seen = {name for row in orchestrator.run_folder.read_metrics() for name in row if name.startswith("system/")}
    assert {"system/cpu_percent", "system/memory_percent", "system/process_memory_gb", "system/disk_free_gb"} <= seen


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("when: 'collect/return is high'", "is not a comparison"),
        ("when: 'collect/return > 1', action: shout", "action"),
        ("when: 'collect/return > 1', webhook: example.org", "begins with http"),
        ("when: stalled, secnds: 3", "Did you mean 'seconds'"),
    ],
)
def test_a_bad_rule_is_refused_before_anything_runs(experiment, text, message):
    with pytest.raises(InputError, match=message):
        experiment(rule("bad", text))
