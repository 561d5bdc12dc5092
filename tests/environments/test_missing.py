"""Names that do not exist and packages that are not installed are explained, for every family of environments."""

import sys

import numpy as np
import pytest

from paddock.config.schema import instantiate, validate_target
from paddock.core.errors import InputError


def make(module, **options):
    config = validate_target({"_target_": f"paddock.environments.{module}.make", "num_envs": 1, **options})
    return instantiate(config, 1)


@pytest.mark.parametrize(
    ("module", "options", "suggestion"),
    [
        ("dmc", {"domain": "cartpol", "task": "swingup"}, "Did you mean 'cartpole'"),
        ("dmc", {"domain": "cartpole", "task": "swing"}, "Did you mean 'swingup'"),
        ("atari", {"game": "Pong"}, "Did you mean 'pong'"),
        ("minigrid", {"id": "MiniGrid-Empty-8x9-v0"}, "Did you mean 'MiniGrid-Empty-8x8-v0'"),
    ],
)
def test_unknown_names_get_suggestions(module, options, suggestion):
    with pytest.raises(InputError, match=suggestion):
        make(module, **options)


@pytest.mark.parametrize(
    ("module", "options", "missing", "extra"),
    [
        ("dmc", {"domain": "cartpole", "task": "swingup"}, "dm_control.suite", "dmc"),
        ("atari", {"game": "pong"}, "ale_py", "atari"),
        ("minigrid", {"id": "MiniGrid-Empty-8x8-v0"}, "minigrid", "minigrid"),
    ],
)
def test_what_is_not_installed_is_explained(monkeypatch, module, options, missing, extra):
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(InputError, match=rf"pip install 'paddock\[{extra}\]'"):
        make(module, **options)


def test_pictures_without_a_renderer_are_explained(monkeypatch):
    from paddock.environments.dmc import env as dmc

    config = validate_target(
        {"_target_": "paddock.environments.dmc.env.make", "num_envs": 1, "domain": "cartpole", "task": "swingup"}
    )
    env = dmc.DMCEnv(config.model_copy(update={"observation": "pixels"}))

    def fail(*args, **kwargs):
        raise RuntimeError("no OpenGL here")

    monkeypatch.setattr(type(env._env.physics), "render", fail)
    with pytest.raises(InputError, match=r"environment\.observation=state"):
        env.reset(seed=1)
    monkeypatch.undo()
    state = dmc.DMCEnv(config).reset(seed=1)[0]
    assert state.shape == (5,)
    assert state.dtype == np.float32
