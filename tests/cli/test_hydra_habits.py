"""What people are used to from Hydra works on the command line."""

import pytest


@pytest.mark.parametrize("named", ["sac_pendulum", "experiment=sac_pendulum", "+experiment=sac_pendulum"])
def test_an_experiment_is_chosen_as_in_hydra(paddock, named):
    ratio = "training.phases.joint.workflow_hooks.update.ratio=0.25"
    shown = paddock("train", named, ratio, "--cfg", "job")
    assert shown.stdout == paddock("train", "sac_pendulum", ratio, "--print-config").stdout
    assert "ratio: 0.25" in shown.stdout


def test_another_cfg_is_refused(paddock):
    refused = paddock("train", "sac_pendulum", "--cfg", "hydra")
    assert refused.returncode != 0
    assert "--cfg job" in refused.stderr
