"""Words that options and metrics had before schema version 4, and the words of the field that they have now.

Saved configurations are renamed when they are migrated; people's own YAML and what they type when it is composed.
"""

from __future__ import annotations

import copy
import logging
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from paddock.config.moved import OWN, current_name
from paddock.config.phases import HOOKS as HOOKS_KEY
from paddock.config.phases import phases_by_name

log = logging.getLogger(__name__)

TARGET = "_target_"
_REPLAY = {"discount": "gamma", "target_rate": "tau"}
_PLAN = {"spread": "std", "least_spread": "min_std"}
_ACTOR = {
    "impulses.chance": "ez_greedy.epsilon",
    "impulses.steps": "ez_greedy.duration",
    "impulses": "ez_greedy",
}
OPTIONS: dict[str, dict[str, str]] = {
    "": {
        "evaluation.judge": "evaluation.evaluator",
        "reward.discount": "reward.gamma",
    },
    "buffers.disk.DiskBuffer": {"yields": "sample_as"},
    "buffers.offline.OfflineBuffer": {"yields": "sample_as"},
    "buffers.prioritized.PrioritizedBuffer": {"discount": "gamma", "exponent": "alpha", "floor": "eps"},
    "buffers.uniform.UniformBuffer": {"discount": "gamma"},
    "components.controllers.critics.Critics": {"copies": "ensemble_size"},
    "components.controllers.latent_control.LatentPolicy": {
        "deviation": "std",
        "uniform_share": "unimix",
        "latent.uniform_share": "latent.unimix",
    },
    "components.controllers.latent_control.LatentValue": {"latent.uniform_share": "latent.unimix"},
    "components.controllers.planners.CEM": _PLAN,
    "components.controllers.planners.MPPI": _PLAN,
    "components.controllers.policy.StochasticPolicy": {"guesses": "auxiliary_targets"},
    "components.dynamics.latent_dynamics.LatentModel": {"goes_on": "continue"},
    "components.dynamics.world_model.WorldModel": {"rssm.uniform_share": "rssm.unimix", "goes_on": "continue"},
    "components.networks.multi_input.MultiInput": {"pictures": "images", "numbers": "vector"},
    "components.normalizers.ObservationNormalizer": {"least_deviation": "min_std"},
    "components.normalizers.RewardNormalizer": {"least_deviation": "min_std"},
    "racing.env.vector.make": {"reward.discount": "reward.gamma"},
    "rollout.actor.PolicyActor": {"carries": "saved_with"},
    "rollout.model_actors.DeterministicActor": _ACTOR,
    "rollout.model_actors.PlanningActor": {**_ACTOR, "discount": "gamma"},
    "rollout.model_actors.StochasticActor": _ACTOR,
    "workflows.dqn.DQN": {
        **_REPLAY,
        "target_every": "target_update_interval",
        "importance_exponent": "beta",
        "huber": "huber_delta",
    },
    "workflows.dreamer.Dreamer": {
        "dreams": "imagination_starts",
        "discount": "gamma",
        "decay": "lambda",
        "scales.goes_on": "scales.continue",
        "entropy_scale": "entropy_coef",
        "slow_rate": "tau",
        "slow_every": "target_update_interval",
        "replay_value_scale": "replay_value_coef",
    },
    "workflows.latent_actor.LatentActor": {"discount": "gamma", "scales.ending": "scales.continue"},
    "workflows.planet.PlaNet": {"scales.goes_on": "scales.continue"},
    "workflows.ppo.PPO": {
        "discount": "gamma",
        "gae_decay": "gae_lambda",
        "clip": "clip_ratio",
        "value_scale": "value_coef",
        "entropy_scale": "entropy_coef",
        "guess_scale": "aux_coef",
    },
    "workflows.redq.REDQ": _REPLAY,
    "workflows.sac.SAC": _REPLAY,
}
"""Old option -> new option, by the `_target_` that has it, as it is called today without `paddock.`; by "" those of the
configuration itself. Both are dotted where the option is inside another one."""
GROUPS = {"judging": "evaluation"}
"""Old folder of YAML -> new folder."""
HOOKS: dict[str, dict[str, str]] = {
    "workflows.dqn.DQN": {"update_controller": "update"},
    "workflows.ppo.PPO": {"update_controller": "update"},
    "workflows.sac.SAC": {"update_controller": "update"},
}
"""Old hook -> new hook, by the workflow's `_target_`."""
METRICS: dict[str, str] = {
    "controller/dreamed_reward": "controller/imagined_reward",
    "train/divergence": "train/kl",
    "train/ending_loss": "train/continue_loss",
    "train/goes_on_loss": "train/continue_loss",
    "train/guess_error": "train/aux_loss",
    "train/value_spread": "train/value_std",
}
"""Old metric -> new metric, with their prefixes. Logs of older runs keep the old ones, and are read with the new."""
_LOGGED = re.compile(f'"({"|".join(METRICS)})"'.encode())


def rename(
    values: Mapping[str, Any], is_chosen: Callable[[str], bool] = lambda key: False
) -> tuple[dict[str, Any], dict[str, str]]:
    """The same configuration in today's words, and which keys were renamed, old -> new.

    is_chosen: whether a person wrote the new key (dotted, a leaf) as well; theirs then stays.
    """
    renamed: dict[str, Any] = copy.deepcopy(dict(values))
    training = renamed.get("training")
    if isinstance(training, dict) and "phases" in training:
        training["phases"] = phases_by_name(training["phases"])
    found: dict[str, str] = {}
    for path, node in list(_owners(renamed, "")):
        target = current_name(str(node[TARGET])) if TARGET in node else ""
        if target:
            node[TARGET] = target
        for old, new in OPTIONS.get(target.removeprefix(OWN), {}).items():
            if _move(node, path, old, new, is_chosen):
                found[_join(path, old)] = _join(path, new)
    return renamed, found | _rename_hooks(renamed)


def rename_key(key: str, found: Mapping[str, str]) -> str:
    """What became of a dotted key when `found` was renamed."""
    for old, new in found.items():
        if key == old or key.startswith(f"{old}."):
            return new + key.removeprefix(old)
    return key


def old_keys(values: Any) -> dict[str, str]:
    """The dotted keys that options of this configuration had before, and those that they have now."""
    return {
        _join(path, old): _join(path, new)
        for path, node in _owners(values, "")
        for old, new in OPTIONS.get(current_name(str(node.get(TARGET, ""))).removeprefix(OWN), {}).items()
    }


def rename_references(values: Any) -> Any:
    """A configuration that is not resolved yet, whose `${workflow.discount}` become `${workflow.gamma}`."""
    return _with_references(values, old_keys(values))


def _with_references(values: Any, stale: Mapping[str, str]) -> Any:
    if isinstance(values, dict):
        return {key: _with_references(value, stale) for key, value in values.items()}
    if isinstance(values, list):
        return [_with_references(value, stale) for value in values]
    if not isinstance(values, str) or "${" not in values:
        return values
    return re.sub(r"(?<=[{:])[\w.]+", lambda match: rename_key(match[0], stale), values)


def rename_metrics(text: str) -> str:
    """A text with today's names of the metrics in it: a metric, or a condition over some."""
    return re.sub(r"[\w]+(?:/[\w.]+)+", lambda match: METRICS.get(match[0], match[0]), text) if METRICS else text


def renamed_groups(text: str) -> str:
    """A sentence on each group of YAML that is named in the text and has another name today."""
    found = [old for old in GROUPS if re.search(rf"\b{old}\b", text)]
    return "".join(f" The group '{old}' is now called '{GROUPS[old]}'." for old in found)


def rename_logged(text: bytes) -> bytes:
    """Lines of a log in JSON with today's names of the metrics."""
    return _LOGGED.sub(lambda match: b'"' + METRICS[match[1].decode()].encode() + b'"', text)


def say_renamed(found: Mapping[str, str]) -> None:
    """Log one line that lists the renamed options."""
    if found:
        listed = ", ".join(f"{old} is now {new}" for old, new in found.items())
        log.warning("options were renamed: %s. The old words work for now.", listed)


def _owners(node: Any, path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """The root and every mapping with a `_target_`, inner ones first, so that a moved one was renamed before."""
    if isinstance(node, dict):
        for key, value in node.items():
            yield from _owners(value, _join(path, str(key)))
        if not path or isinstance(node.get(TARGET), str):
            yield path, node
    elif isinstance(node, list):
        for index, value in enumerate(node):
            yield from _owners(value, _join(path, str(index)))


def _rename_hooks(values: dict[str, Any]) -> dict[str, str]:
    """Give the hooks of all phases the names that the workflow has for them; says which were renamed."""
    found: dict[str, str] = {}
    workflow = values.get("workflow")
    table = HOOKS.get(str(workflow.get(TARGET, "")).removeprefix(OWN), {}) if isinstance(workflow, dict) else {}
    phases = (values.get("training") or {}).get("phases") if table else None
    for name, phase in phases.items() if isinstance(phases, dict) else ():
        hooks = phase.get(HOOKS_KEY) if isinstance(phase, dict) else None
        if isinstance(hooks, dict) and (old := [hook for hook in hooks if hook in table]):
            # An old word wins over a new one that was there before: a user's YAML or override is merged last.
            kept = {hook: value for hook, value in hooks.items() if hook not in [table[one] for one in old]}
            phase[HOOKS_KEY] = {table.get(hook, hook): value for hook, value in kept.items()}
            place = f"training.phases.{name}.{HOOKS_KEY}"
            found |= {f"{place}.{hook}": f"{place}.{table[hook]}" for hook in old}
    return found


def _move(node: dict[str, Any], path: str, old: str, new: str, is_chosen: Callable[[str], bool]) -> bool:
    parent, name = _parent(node, old)
    if parent is None or name not in parent:
        return False
    value = parent.pop(name)
    for leaf, content in _leaves(value, new):
        if content != {} and not is_chosen(_join(path, leaf)):
            _put(node, leaf, content)
    if not parent and parent is not node:  # All of it was renamed.
        above, inner = _parent(node, old.rpartition(".")[0])
        if above is not None:
            del above[inner]
    return True


def _leaves(value: Any, key: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict) and value:
        for name, inner in value.items():
            yield from _leaves(inner, f"{key}.{name}")
    else:
        yield key, value


def _parent(node: Any, key: str) -> tuple[dict[str, Any] | None, str]:
    *above, name = key.split(".")
    for part in above:
        node = node.get(part) if isinstance(node, dict) else None
    return (node if isinstance(node, dict) else None), name


def _put(node: dict[str, Any], key: str, value: Any) -> None:
    *above, name = key.split(".")
    for part in above:
        inner = node.get(part)
        if not isinstance(inner, dict):
            inner = node[part] = {}
        node = inner
    node[name] = value


def _join(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key
