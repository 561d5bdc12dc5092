"""Whether an experiment can collect beside learning (`pipeline`), and why not."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from paddock.config.schema import load_target
from paddock.core.errors import InputError
from paddock.core.system import available_cores
from paddock.environments.realtime.env import RealTimeVectorEnv
from paddock.orchestration.schema import ExperimentConfig
from paddock.rollout.collector import Collector
from paddock.rollout.controllers import ControllerManager
from paddock.rollout.experience import Experience
from paddock.rollout.pipeline import Pipeline

log = logging.getLogger(__name__)


def with_pipeline(
    config: ExperimentConfig,
    experience: Experience,
    components: Mapping[str, Any],
    controllers: ControllerManager,
    buffers: Mapping[str, Any],
) -> Experience:
    """The experience, collected beside learning where `pipeline` asks for it."""
    if config.pipeline == "off" or (config.pipeline == "auto" and available_cores() < 2):
        return experience
    obstacle = _obstacle(config, experience, components, buffers)
    if obstacle is None:
        assert isinstance(experience, Collector)
        return Pipeline(experience, controllers, buffers)
    if config.pipeline == "on":
        experience.close()
        raise InputError(f"pipeline=on cannot be used here: {obstacle}. Set pipeline=off, or auto.")
    log.info("pipeline=auto: steps are not collected beside learning: %s.", obstacle)
    return experience


def _obstacle(
    config: ExperimentConfig, experience: Experience, components: Mapping[str, Any], buffers: Mapping[str, Any]
) -> str | None:
    workflow = load_target(config.workflow.target_)
    if not isinstance(experience, Collector):
        return "it collects in this process, and this experience collects elsewhere; it needs experience=local"
    if isinstance(experience.env.unwrapped, RealTimeVectorEnv):
        return "the environment runs in real time, and learning would take the processor from it"
    if config.learners > 1:
        return "the learners share their updates; it needs learners=1"
    if config.device != "cpu":
        return f"it needs device=cpu, and the device is {config.device}"
    if not workflow.can_pipeline:
        return f"{workflow.__name__} acts with more than its parameters"
    is_on_policy = any(getattr(buffer, "is_on_policy", False) for buffer in buffers.values())
    if is_on_policy and any(getattr(part, "is_recurrent", False) for part in components.values()):
        return "a rollout of a recurrent policy begins with a memory that the next version does not have"
    return None
