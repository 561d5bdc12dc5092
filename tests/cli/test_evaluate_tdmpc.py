"""Every controller over one trained TD-MPC2 run, and its model beside an untrained one, by the command line."""

import json

from paddock.orchestration.subject import find_subject

TINY = [
    "environment.num_envs=2",
    "components.world_model.latent=16",
    "components.world_model.encoder.hidden=[16]",
    *[f"components.world_model.{part}.hidden=[16, 16]" for part in ("dynamics", "reward", "continue")],
    "buffers.replay.batch_size=4",
    "training.phases.seed.duration_steps=60",
    "training.phases.pretrain.duration_updates=2",
    "training.phases.train.workflow_hooks.evaluate=null",
    "training.total_steps=70",
    "logging.tensorboard=false",
    *[f"controllers.available.{name}.planner.candidates=16" for name in ("mppi", "cem", "shooting")],
    *[f"controllers.available.{name}.planner.elites=4" for name in ("mppi", "cem")],
]


def test_tdmpc2_is_evaluated_with_every_controller_and_without_its_model(paddock, tmp_path):
    result = paddock("train", "tdmpc2_pendulum", "--name", "tiny", *TINY)
    assert result.returncode == 0, result.stderr
    (run,) = (tmp_path / "runs").glob("tiny-*/")
    lengths = {}
    for name in ("policy", "mppi", "cem", "shooting", "random"):
        found = find_subject("tiny", tmp_path / "runs", controller=name)
        lengths[name] = found.evaluator(found.actor, found.make_env, episodes=2, seed=1, deterministic=True).returns
    assert len({tuple(values) for values in lengths.values()}) == 5, "every controller has its own way"

    evaluated = paddock("evaluate", "tiny", "--world-model", "--horizon", "4", "--episodes", "2", "--json")
    assert evaluated.returncode == 0, evaluated.stderr
    values = json.loads(evaluated.stdout)
    assert values["errors"].keys() == {"trained", "untrained", "unchanged"}
    assert len(values["errors"]["trained"]["observation"]) == 4
    assert values["scores"].keys() == {"trained", "untrained"}
    assert (run / "results" / "world_model.json").is_file()
