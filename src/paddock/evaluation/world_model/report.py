"""What a world model is worth: its errors beside those of one that knows nothing, and the score with either."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from paddock.core.files import make_folder, replace_file
from paddock.core.results import results_folder
from paddock.evaluation.subject import Subject
from paddock.evaluation.world_model.episode import record_episode
from paddock.evaluation.world_model.picture import film, picture
from paddock.evaluation.world_model.probe import (
    Errors,
    WorldModelProbe,
    WorldModelProbeConfig,
    comparable,
    errors_of,
    held_out,
    model_errors,
    required_model,
    untrained,
)

FILMED_STEPS = 200


@dataclass(frozen=True)
class ModelReport:
    """errors: of the trained model, of an untrained one, and of saying that all stays unchanged. scores: metrics of the
    same controller with the trained and with the untrained model."""

    subject: str
    protocol: dict[str, Any]
    errors: dict[str, Errors]
    scores: dict[str, dict[str, float]]

    def to_dict(self) -> dict[str, Any]:
        errors = {name: error.to_dict() for name, error in self.errors.items()}
        return {"subject": self.subject, "protocol": self.protocol, "errors": errors, "scores": self.scores}

    def table(self) -> list[dict[str, str]]:
        """A row for some numbers of imagined steps, and for each score."""
        steps = len(self.errors["trained"].observation)
        rows = []
        for kind in ("observation", "reward"):
            for step in sorted({1, (steps + 1) // 2, steps}):
                values = {name: f"{getattr(error, kind)[step - 1]:.3f}" for name, error in self.errors.items()}
                rows.append({"": f"{kind} error after {step}", **values})
        for metric in self.scores["trained"]:
            values = {name: f"{score[metric]:.2f}" if metric in score else "" for name, score in self.scores.items()}
            rows.append({"": metric, **values, "unchanged": ""})
        return rows


def evaluate_world_model(
    subject: Subject, *, context: int, horizon: int, episodes: int, seed: int, deterministic: bool
) -> ModelReport:
    """Errors and scores of the actor's world model, also written to the subject's `results/world_model.json`."""
    config = probe_config(context, horizon)
    model = required_model(subject.actor)
    control = untrained(subject.actor, seed=seed)
    windows = held_out(subject.actor, subject.make_env, config, seed=seed)
    compared = comparable(model, windows)
    errors = {
        "trained": model_errors(model, windows, seed=seed),
        "untrained": model_errors(required_model(control), windows, seed=seed),
        "unchanged": errors_of(compared.unchanged(), compared),
    }
    scores = {
        name: subject.evaluator(
            actor, subject.make_env, episodes=episodes, seed=seed, deterministic=deterministic
        ).metrics()
        for name, actor in {"trained": subject.actor, "untrained": control}.items()
    }
    protocol = {"episodes": episodes, "seed": seed, "deterministic": deterministic, "held_out": config.to_dict()}
    report = ModelReport(subject.name, protocol, errors, scores)
    folder = results_folder(subject.folder)
    make_folder(folder)
    replace_file(folder / "world_model.json", json.dumps(report.to_dict(), indent=2).encode())
    return report


def illustrate(subject: Subject, report: ModelReport, *, context: int, horizon: int, seed: int) -> tuple[Path, Path]:
    """A film of one episode, real and imagined, and a picture of it with the errors; the files."""
    config = probe_config(context, horizon, steps=FILMED_STEPS)
    episode = record_episode(subject.actor, subject.make_env, config, seed=seed)
    video, still = (subject.folder / "videos" / f"world_model-{seed}.{ending}" for ending in ("mp4", "png"))
    film(video, episode)
    still.unlink(missing_ok=True)  # Not to be written through, if it is a link.
    picture(episode, report.errors, title=f"What the model of {subject.name} knows").save(still)
    return video, still


def probe_config(context: int, horizon: int, steps: int = 100) -> WorldModelProbeConfig:
    """Options of the probe, for so many steps ahead."""
    target = f"{WorldModelProbe.__module__}.{WorldModelProbe.__name__}"
    values = {"_target_": target, "context": context, "horizon": horizon, "steps": max(steps, 2 * (context + horizon))}
    return WorldModelProbeConfig.model_validate(values)
