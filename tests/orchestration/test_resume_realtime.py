"""A real-time run is resumed with a new episode: the world has gone on, and no transition crosses the gap."""

from paddock.experiments.run import RunFolder

SHORT = (
    "environment.clock=virtual",
    "environment.ep_max_length=50",
    "training.phases.seed.duration_steps=60",
    "training.phases.joint.workflow_hooks.evaluate=null",
    "checkpoint.every_steps=60",
    "logging.every_steps=10",
    "logging.tensorboard=false",
)


def test_sac_realtime_resumes_with_a_new_episode(paddock, tmp_path):
    done = paddock("train", "sac_realtime", *SHORT, "training.total_steps=120")
    assert done.returncode == 0, done.stdout + done.stderr
    run = RunFolder.find(tmp_path / "runs", "sac_realtime")
    done = paddock("train", "--resume", str(run.path), "training.total_steps=200")
    assert done.returncode == 0, done.stdout + done.stderr
    ends = {row["agent_steps"]: row["collect/length"] for row in run.read_metrics() if "collect/length" in row}
    assert ends == {50: 50, 100: 50, 170: 50}, "20 steps were broken off at 120, and count into no episode"
    assert run.read_manifest()["status"] == "finished"
