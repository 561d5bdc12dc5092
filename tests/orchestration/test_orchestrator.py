import json
import logging
import shutil

import numpy as np
import pytest
import torch
from rich.console import Console

from interruption import stop_after
from paddock.core.errors import InputError, PaddockError
from paddock.core.trees import load_tree
from paddock.orchestration.launch import resumed_run

PHASES = "training.phases=[{name: %s, buffer: rollout, freeze: [%s], controller: %s, workflow_hooks: [%s]}]"


def phases(hooks="{collect: {steps: 128}}, update", freeze="", controller="null"):
    return PHASES % ("only", freeze, controller, hooks)


def events(orchestrator, kind):
    return [event for event in orchestrator.run_folder.read_events() if event["event"] == kind]


def test_a_run_leaves_its_whole_story(experiment):
    orchestrator = experiment()
    outcome = orchestrator.run()
    run = orchestrator.run_folder
    assert outcome.status == "finished"
    assert (outcome.counters.agent_steps, outcome.counters.env_frames) == (512, 512)
    assert outcome.counters.updates == 512 // 64 * 2
    manifest = run.read_manifest()
    assert manifest["status"] == "finished"
    assert {"id", "git", "config_hash", "seed", "versions", "hardware", "command"} <= manifest.keys()
    rows = run.read_metrics()
    assert rows[0]["agent_steps"] == 128
    assert {"collect/return", "train/kl", "train/entropy", "train/explained_variance"} <= rows[1].keys()
    assert rows[-1]["eval/return"] > 0
    assert (run.policy / "latest" / "policy.json").exists()
    assert (run.policy / "best" / "policy.safetensors").exists()
    assert [event["event"] for event in run.read_events()] == ["phase", "evaluation", "finished"]
    assert sum(outcome.time_shares.values()) == pytest.approx(1.0)
    assert all(outcome.time_shares[kind] > 0 for kind in ("collect", "update", "evaluate", "checkpoint", "sample"))


def test_two_runs_from_one_seed_are_the_same_and_another_seed_is_not(experiment):
    def final(*overrides):
        orchestrator = experiment(*overrides)
        orchestrator.run()
        return torch.cat([p.flatten() for p in orchestrator.context.components["policy"].parameters()])

    assert torch.equal(final(), final())
    assert not torch.equal(final(), final("seed=2"))


def test_evaluation_does_not_disturb_training(experiment):
    def final(hooks):
        orchestrator = experiment(phases(hooks), "evaluation.stochastic=true")
        orchestrator.run()
        return torch.cat([p.flatten() for p in orchestrator.context.components["policy"].parameters()])

    plain = "{collect: {steps: 128}}, update"
    assert torch.equal(final(plain), final(plain + ", {evaluate: {every_steps: 128}}"))


def test_a_frozen_component_does_not_learn(experiment):
    orchestrator = experiment(phases(freeze="policy"))
    before = {n: [p.clone() for p in c.parameters()] for n, c in orchestrator.context.components.items()}
    orchestrator.run()
    after = orchestrator.context.components
    assert all(torch.equal(a, b) for a, b in zip(before["policy"], after["policy"].parameters(), strict=True))
    assert not any(torch.equal(a, b) for a, b in zip(before["value"], after["value"].parameters(), strict=True))


def test_a_phase_may_let_another_controller_act(experiment):
    orchestrator = experiment(phases("{collect: {steps: 128}}", controller="random"))
    policy = orchestrator.context.controllers["policy"]
    policy.act = None
    orchestrator.run()
    assert orchestrator.workflow.actor() is orchestrator.context.controllers["random"]


@pytest.mark.parametrize("where", ["weights", "observation", "reward"])
def test_a_nan_stops_the_run_with_its_name_phase_and_batch(experiment, where):
    orchestrator = experiment(phases())
    if where == "weights":
        with torch.no_grad():
            orchestrator.context.components["value"].head.weight[0, 3] = torch.nan
    else:
        step = orchestrator.context.experience.env.step

        def poisoned(action):
            observation, reward, *rest = step(action)
            (observation if where == "observation" else reward)[1] = np.nan
            return observation, reward, *rest

        orchestrator.context.experience.env.step = poisoned
    with pytest.raises(PaddockError, match="NaN or Inf in") as caught:
        orchestrator.run()
    run = orchestrator.run_folder
    assert run.read_manifest()["status"] == "failed"
    assert run.read_manifest()["error"] == str(caught.value)
    if where == "weights":
        assert "NaN or Inf in loss in phase 'only', update" in str(caught.value)
        (folder,) = run.faults.iterdir()
        assert load_tree(folder, "batch")["reward"].shape == (32, 4)
    else:
        assert f"'{where}' from the environment" in str(caught.value)


def test_debug_adds_statistics_and_a_profile(experiment, caplog):
    with caplog.at_level(logging.WARNING):
        orchestrator = experiment("debug=true")
        orchestrator.run()
    rows = orchestrator.run_folder.read_metrics()
    assert rows[0]["train/debug/policy.head.weight/gradient_norm"] > 0
    assert rows[0]["train/debug/value.head.weight/weight_norm"] > 0
    assert "Self CPU" in (orchestrator.run_folder.path / "profile.txt").read_text()
    assert "Self CPU" in caplog.text


@pytest.mark.filterwarnings("ignore:Error detected in")
def test_debug_names_the_operation_that_made_a_nan(experiment):
    broken = experiment("debug=true", phases())
    losses = broken.workflow.losses
    broken.workflow.losses = lambda minibatch: {
        name: loss + (0 * broken.workflow.value.head.weight.sum()).sqrt() for name, loss in losses(minibatch).items()
    }
    with pytest.raises(PaddockError, match="MulBackward0"):
        broken.run()


def test_a_metric_ends_a_phase(experiment):
    hooks = "{collect: {steps: 128}}, update, evaluate"
    until = phases(hooks).replace("freeze", "until: 'eval/return >= 1', freeze")
    orchestrator = experiment(until, "training.total_steps=null")
    assert orchestrator.run().counters.agent_steps == 128


def test_the_clock_ends_a_run(experiment):
    orchestrator = experiment(phases(), "training.total_steps=null", "training.max_seconds=0.5")
    outcome = orchestrator.run()
    assert outcome.status == "finished"
    assert 0.5 <= outcome.seconds < 20


def test_a_tracker_that_fails_is_dropped_and_training_goes_on(experiment, caplog):
    with caplog.at_level(logging.WARNING):
        orchestrator = experiment("logging.wandb=offline", "logging.tensorboard=true")
        (orchestrator.run_folder.path / "tensorboard").write_text("a file where a folder is wanted")
        assert orchestrator.run().status == "finished"
    assert "Weights & Biases failed; continuing without it" in caplog.text
    assert "paddock[wandb]" in caplog.text
    assert "TensorBoard failed; continuing without it" in caplog.text


def test_tensorboard_reads_what_was_written(experiment):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    orchestrator = experiment("logging.tensorboard=true")
    orchestrator.run()
    curves = EventAccumulator(str(orchestrator.run_folder.tensorboard)).Reload()
    rows = orchestrator.run_folder.read_metrics()
    points = [(point.step, point.value) for point in curves.Scalars("train/kl")]
    expected = [(row["agent_steps"], row["train/kl"]) for row in rows if "train/kl" in row]
    assert [step for step, _ in points] == [step for step, _ in expected]
    assert np.allclose([value for _, value in points], [value for _, value in expected])


def test_numbers_that_are_not_finite_are_logged_as_null(experiment):
    orchestrator = experiment(phases())
    judge = orchestrator.workflow._diagnose
    orchestrator.workflow._diagnose = lambda samples, clip: {**judge(samples, clip), "odd": float("inf")}
    orchestrator.run()
    for line in orchestrator.run_folder.metrics_file.read_text().splitlines():
        json.loads(line, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
    rows = [row for row in orchestrator.run_folder.read_metrics() if "train/kl" in row]
    assert rows[0]["train/odd"] is None


USER_ALGORITHM = '''
"""A user's own algorithm: predict rewards from replay. One file."""
import torch
from paddock.config.schema import TargetSchema
from paddock.workflows.base import Workflow


class PredictorConfig(TargetSchema):
    scale: float = 1.0


class Predictor(Workflow):
    def __init__(self, config: PredictorConfig) -> None:
        super().__init__(config)

    def update_world_model(self, batch, *, phase):
        error = self.context.components["value"](batch["observation"]) - self.config.scale * batch["reward"]
        loss = error.square().mean()
        self.context.optimizers["main"].descend(loss)
        return {"train/loss": loss.detach()}
'''
USER_EXPERIMENT = """# @package _global_
defaults:
  - override /workflow: none
environment: {num_envs: 4}
components:
  value:
    _target_: paddock.components.controllers.policy.ValueFunction
    network: {_target_: paddock.components.networks.mlp.MLP, hidden: [16]}
workflow: {_target_: predictor_package.algorithm.Predictor, scale: 2.0}
buffers:
  replay: {_target_: paddock.buffers.uniform.UniformBuffer, capacity: 600, batch_size: 32, segment_steps: 64}
optimizers:
  main: {_target_: paddock.components.optimizers.adam.Adam, components: [value], learning_rate: 0.01}
training:
  phases:
    - name: seed
      buffer: replay
      duration_steps: 100
      workflow_hooks: [collect: {steps: 20}]
    - name: joint
      buffer: replay
      duration_steps: 900
      workflow_hooks: [collect: {steps: 20}, update_world_model: {ratio: 0.25}]
    - name: only_learn
      type: offline
      buffer: replay
      duration_updates: 50
      workflow_hooks: [update_world_model]
    - name: judge
      type: eval_only
      workflow_hooks: [evaluate]
evaluation: {episodes: 2}
logging: {terminal: false, tensorboard: false, every_steps: 200}
checkpoint: {every_steps: 100}
"""


@pytest.fixture
def own(tmp_path, monkeypatch):
    """A package and a YAML of a user's own."""
    package = tmp_path / "predictor_package"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "algorithm.py").write_text(USER_ALGORITHM)
    (tmp_path / "mine.yaml").write_text(USER_EXPERIMENT)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("PADDOCK_PLUGINS", "predictor_package")
    return tmp_path / "mine.yaml"


def test_an_algorithm_of_ones_own_is_one_file_and_one_yaml(experiment, own):
    orchestrator = experiment(user=own)
    outcome = orchestrator.run()
    assert [event["phase"] for event in events(orchestrator, "phase")] == ["seed", "joint", "only_learn", "judge"]
    assert outcome.counters.agent_steps == 1000
    assert outcome.counters.updates == 225 + 50
    assert len(events(orchestrator, "evaluation")) == 1


@pytest.mark.parametrize("actions", [3, 40, 130, 290])
def test_replay_and_offline_phases_resume_bit_identical(experiment, own, actions):
    whole = experiment(user=own, name="whole")
    whole.run()

    broken = experiment(user=own, name="broken")
    stop_after(broken, actions)
    with resumed_run(broken.run_folder, [], Console(quiet=True)) as resumed:
        assert resumed.run().status == "finished"
    for one, other in zip(
        whole.context.components["value"].parameters(), resumed.context.components["value"].parameters(), strict=True
    ):
        assert torch.equal(one, other)
    assert whole.counters == resumed.counters


@pytest.mark.parametrize("actions", range(4, 8))
def test_the_phase_of_a_row_at_a_phases_border_is_the_same_after_a_resume(experiment, own, actions):
    """The first row, at 100 steps, falls on the border of seed and joint; it is about what was done before it."""
    short = ["logging.every_steps=100", "training.total_steps=200"]
    whole = experiment(*short, user=own, name="whole")
    whole.run()
    broken = experiment(*short, user=own, name="broken")
    stop_after(broken, actions)
    with resumed_run(broken.run_folder, [], Console(quiet=True)) as resumed:
        resumed.run()
    rows = [[(row["agent_steps"], row["phase"]) for row in one.run_folder.read_metrics()] for one in (whole, broken)]
    assert rows[0] == rows[1]
    assert rows[0][0] == (100, "seed")


def test_a_checkpoint_of_the_best_evaluation_is_of_what_comes_after_it(experiment):
    """Resumed from it, the evaluation is not done a second time."""
    hooks = phases("{collect: {steps: 128}}, update, {evaluate: {every_steps: 128}}")
    broken = experiment(hooks, "training.total_steps=256", "checkpoint.keep_last=9")
    stop_after(broken, 4)
    best = broken.checkpoints.best()
    for other in broken.checkpoints.all():
        if other != best:
            shutil.rmtree(other)
    with resumed_run(broken.run_folder, [], Console(quiet=True)) as resumed:
        resumed.run()
    assert [event["agent_steps"] for event in events(broken, "evaluation")] == [128, 256]


def test_learning_offline_from_nothing_is_an_error(experiment, own):
    text = own.read_text()
    start, end = text.index("    - name: seed"), text.index("    - name: only_learn")
    own.write_text(text[:start] + text[end:])
    with pytest.raises(InputError, match="'replay', which holds too little"):
        experiment(user=own).run()
