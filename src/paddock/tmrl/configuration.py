"""TMRL's config.json as an experiment of Paddock: one option for each key, or the reason why there is none.

Only numbers, truth values and two plain names are taken over, so that nothing in the file can become more than data.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import yaml

from paddock.config.compose import choices, compose
from paddock.config.schema import schema_of
from paddock.core.errors import InputError, did_you_mean
from paddock.core.reading import read_json
from paddock.tmrl.keys import (
    HOOKS,
    IN_PRODUCT,
    OLD_NETWORKING,
    OLD_PREFIXES,
    ONLY_REDQ,
    SECTIONS,
    TOP,
    Dropped,
    Mapped,
    number,
    whole,
)
from paddock.tmrl.layouts import Layout

LARGEST_FILE = 2**20  # bytes
Outcome = Literal["mapped", "not mapped", "unknown"]


@dataclass(frozen=True)
class Row:
    """What became of one key. value is what stands in the experiment; a secret has none."""

    key: str
    outcome: Outcome
    option: str = ""
    value: Any = None
    note: str = ""


@dataclass
class Translation:
    """An experiment. values: by dotted option. base: the shipped experiment that it changes."""

    base: str
    workflow: str
    experience: str
    layout: Layout
    values: dict[str, Any] = field(default_factory=dict)
    rows: list[Row] = field(default_factory=list)

    @property
    def name(self) -> str:
        return str(self.values.get("name", "tmrl"))

    def to_yaml(self) -> str:
        """The experiment's file, for `--config FILE`."""
        defaults: list[Any] = [self.base]
        if not self.base.endswith(f"_{self.workflow}"):
            defaults.append({"override /workflow": self.workflow})
        defaults.append({"override /experience": self.experience})
        nested: dict[str, Any] = {}
        for option, value in self.values.items():
            *parents, last = option.split(".")
            place = nested
            for parent in parents:
                place = place.setdefault(parent, {})
            place[last] = value
        head = f"# @package _global_\n# From TMRL's config.json: {self.name}.\n"
        return head + yaml.safe_dump({"defaults": defaults, **nested}, sort_keys=False)


def read_configuration(path: Path) -> Translation:
    """The experiment that a config.json describes."""
    values = read_json(path, limit=LARGEST_FILE)
    if not isinstance(values, dict):
        raise InputError(f"'{path}' is not TMRL's config.json: it holds no keys.")
    return translate(values)


def translate(config: Mapping[str, Any]) -> Translation:
    """As `read_configuration`, from the values."""
    algorithm, environment = _section(config, "ALG"), _section(config, "ENV")
    workflow = _workflow(algorithm)
    layout = _layout(environment)
    kind = "full" if layout.has_images else "lidar"
    is_here = bool(config.get("LOCALHOST_WORKER", True)) and bool(config.get("LOCALHOST_TRAINER", True))
    base = "trackmania_lidar_redq" if (kind, workflow) == ("lidar", "redq") else f"trackmania_{kind}_sac"
    made = Translation(base, workflow, "workers" if is_here else "relay", layout)
    for key, rule, value in _flattened(config):
        made.rows.append(_row(key, rule, value, made))
    made.values |= {row.option: row.value for row in made.rows if row.outcome == "mapped" and row.value is not None}
    _with_nulls(made)
    _combine(made, config)
    _only_known(made)
    return made


def _flattened(config: Mapping[str, Any]) -> Iterator[tuple[str, Mapped | Dropped | None, Any]]:
    """Every key with its rule; None where there is none."""
    for key, value in config.items():
        if key not in ("ALG", "ENV") or not isinstance(value, Mapping):
            old = OLD_NETWORKING if key.startswith(OLD_PREFIXES) else None
            yield key, TOP.get(key, old), value
    for section, rules in SECTIONS.items():
        inner = _section(config, *section.split("."))
        for key, value in inner.items():
            if f"{section}.{key}" not in SECTIONS:
                yield f"{section}.{key}", rules.get(key), value


def _row(key: str, rule: Mapped | Dropped | None, value: Any, made: Translation) -> Row:
    name = key.rpartition(".")[2]
    if rule is None:
        known = [*TOP, *(one for rules in SECTIONS.values() for one in rules)]
        return Row(key, "unknown", note=f"TMRL has no such key.{did_you_mean(name, known)}")
    if name in ONLY_REDQ and made.workflow != "redq":
        return Row(key, "not mapped", note="of REDQ, and ALG.ALGORITHM is SAC")
    if name.startswith("OPTIMIZER_"):
        return _optimizer_row(key, value)
    if isinstance(rule, Dropped):
        return Row(key, "not mapped", note=rule.reason)
    converted = rule.convert(value, key)
    if rule.option == "workflow":
        converted = made.workflow
    elif rule.option == "experience":
        converted = made.experience
    elif rule.option == "environment.interface":
        converted = made.layout.interface
    return Row(key, "mapped", rule.option, converted, rule.note)


def _optimizer_row(key: str, value: Any) -> Row:
    given = str(value).lower()
    if given == "adam":
        return Row(key, "not mapped", note="adam, which is the default")
    if given == "adamw":
        return Row(key, "not mapped", note="adam here decouples weight decay, so it is AdamW")
    return Row(key, "not mapped", note="only Adam is here; the run learns with Adam")


def _with_nulls(made: Translation) -> None:
    """Options whose value is null by itself; those that choose a group are no values."""
    for row in made.rows:
        if row.outcome == "mapped" and row.option.endswith("target_entropy"):
            made.values[row.option] = row.value
    for group in ("workflow", "experience"):
        made.values.pop(group, None)


def _combine(made: Translation, config: Mapping[str, Any]) -> None:
    """Options that come from several keys."""
    values = made.values
    lengths = [config.get("RW_MAX_SAMPLES_PER_EPISODE"), _section(config, "ENV", "RTGYM_CONFIG").get("ep_max_length")]
    given = [whole(one, "ep_max_length") for one in lengths if one is not None]
    if given:
        values["environment.ep_max_length"] = min(given)
    product = ("MAX_EPOCHS", "ROUNDS_PER_EPOCH", "TRAINING_STEPS_PER_ROUND")
    values.pop(IN_PRODUCT, None)
    if all(key in config for key in product):
        epochs, rounds, steps = (whole(config[key], key) for key in product)
        values[IN_PRODUCT], values["logging.every_updates"] = epochs * rounds * steps, steps
        values["training.total_steps"] = None
        made.rows = [replace(row, value=values[IN_PRODUCT]) if row.option == IN_PRODUCT else row for row in made.rows]
    values["training.phases.seed.controller"] = "policy"  # TMRL's workers never act at random.
    if made.experience == "workers":
        values["experience.workers"] = 1  # The game is there once.
    values[f"{HOOKS}.evaluate"] = None  # The trainer has no game; workers play test episodes.
    values["experience.swap"] = "episode"
    values["environment.reward.rule"] = "trackmania_exact"
    values["environment.numbers"] = "tmrl"
    if made.workflow == "redq":
        _redq_ratios(made, _section(config, "ALG"))


def _redq_ratios(made: Translation, algorithm: Mapping[str, Any]) -> None:
    """REDQ's critics and its policy are updated by hooks of their own."""
    key = "REDQ_Q_UPDATES_PER_POLICY_UPDATE"
    ratio = made.values.pop(f"{HOOKS}.update.ratio", 1.0)
    most = made.values.pop(f"{HOOKS}.update.at_most", None)
    made.values[f"{HOOKS}.update_critics.ratio"] = ratio
    made.values[f"{HOOKS}.update_policy.ratio"] = ratio / max(number(algorithm.get(key, 20), key), 1e-9)
    if most is not None:
        made.values[f"{HOOKS}.update_critics.at_most"] = most
    for index, row in enumerate(made.rows):
        if row.option.startswith(f"{HOOKS}.update."):
            option = row.option.replace(".update.", ".update_critics.")
            made.rows[index] = replace(row, option=option)


def _only_known(made: Translation) -> None:
    """Without options that the environment of this Paddock does not have."""
    if made.base not in choices("experiment"):
        return
    environment = compose(made.base).values["environment"]
    schema: Any = schema_of(environment["_target_"])
    strange = {one for one in made.values if one.startswith("environment.") and not _has(schema, one.split(".")[1:])}
    for option in strange:
        del made.values[option]
    for index, row in enumerate(made.rows):
        if row.option in strange:
            made.rows[index] = Row(row.key, "not mapped", note="the environment decides it by itself")


def _has(schema: Any, path: list[str]) -> bool:
    found = schema.model_fields.get(path[0])
    if found is None or len(path) == 1:
        return found is not None
    inner = found.annotation
    return not hasattr(inner, "model_fields") or _has(inner, path[1:])


def _section(config: Mapping[str, Any], *names: str) -> Mapping[str, Any]:
    found: Any = config
    for name in names:
        found = found.get(name, {}) if isinstance(found, Mapping) else {}
    return found if isinstance(found, Mapping) else {}


def _workflow(algorithm: Mapping[str, Any]) -> str:
    given = str(algorithm.get("ALGORITHM", "SAC"))
    known = {"SAC": "sac", "REDQSAC": "redq"}
    if given not in known:
        raise InputError(f"config.json: ALG.ALGORITHM is SAC or REDQSAC, not '{given[:40]}'.")
    return known[given]


def _layout(environment: Mapping[str, Any]) -> Layout:
    """What policies of this configuration read."""
    interface = str(environment.get("RTGYM_INTERFACE", "TM20FULL"))
    endings = {"LIDARPROGRESS": "lidar_progress", "LIDAR": "lidar"}
    kind = next((name for ending, name in endings.items() if interface.endswith(ending)), "full")
    sizes = {key: whole(environment.get(key, usual), f"ENV.{key}") for key, usual in
             (("IMG_HIST_LEN", 4), ("IMG_HEIGHT", 64), ("IMG_WIDTH", 64))}  # fmt: skip
    length = whole(_section(environment, "RTGYM_CONFIG").get("act_buf_len", 2), "ENV.RTGYM_CONFIG.act_buf_len")
    if not all(0 < size <= 4_096 for size in sizes.values()) or not 0 <= length <= 64:
        raise InputError("config.json: the sizes of pictures and histories are positive and not beyond 4096.")
    return Layout(kind, sizes["IMG_HIST_LEN"], length, (sizes["IMG_HEIGHT"], sizes["IMG_WIDTH"]))
