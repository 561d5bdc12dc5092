"""Tasks with several ways to a goal: chunked regression, flow matching and DDPM from the same demonstrations.

    python benchmarks/ways.py [--tasks two_ways avoiding] [--folder runs/ways] [--picture docs/images/ways.png]

Trains each experiment once (minutes on one core), prints the table of docs/workflows/diffusion_policy.md and draws the
paths of 60 starts each. Runs that are in the folder already are not trained again.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import torch
from PIL import Image, ImageDraw, ImageFont
from rich.console import Console

from paddock.environments.avoiding import AvoidingVectorEnv
from paddock.environments.plane import PlaneVectorEnv
from paddock.environments.two_ways import TwoWaysVectorEnv
from paddock.evaluation.ways import Ways, WaysEvaluator, WaysEvaluatorConfig
from paddock.orchestration.launch import Request, new_run, resolve
from paddock.rollout.actor import ActorModule, load_policy

TASKS: dict[str, type[PlaneVectorEnv]] = {"two_ways": TwoWaysVectorEnv, "avoiding": AvoidingVectorEnv}
METHODS = {"bc": "regression", "flow": "flow matching", "ddpm": "DDPM"}
STARTS = {"two_ways": 400, "avoiding": 480}
SEED, DRAWN = 2_000, 60  # other starts than during training
PANEL, FINER = 360, 3  # pixels of a panel's longer side, and how much finer it is drawn
CAPTION, GAP = 26, 12  # pixels
SUCCESS, FAILURE = (30, 60, 160, 110), (235, 120, 0, 230)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=list(TASKS))
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--folder", type=Path, default=Path("runs/ways"))
    parser.add_argument("--picture", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    print("| task | method | success | entropy of ways | largest way |\n|---|---|---|---|---|")
    rows = []
    for task in options.tasks:
        pictures = []
        for method in options.methods:
            actor = trained(f"{method}_{task}", options.folder)
            found = evaluated(actor, task).metrics("")
            shares = f"{found['way_entropy']:.2f} | {100 * found['largest_way_share']:.0f} %"
            print(f"| {task} | {METHODS[method]} | {100 * found['success']:.1f} % | {shares} |", flush=True)
            if options.picture is not None:
                caption = f"{METHODS[method]}: {100 * found['success']:.1f} % arrive"
                pictures.append(drawn(actor, task, caption))
        rows.append(pictures)
    if options.picture is not None:
        Image.fromarray(np.concatenate([side_by_side(row) for row in rows])).quantize(128).save(options.picture)


def trained(experiment: str, folder: Path) -> ActorModule:
    """The policy of an experiment, trained where there is none yet."""
    saved = sorted(folder.glob(f"{experiment}-*/policy/latest"))
    if not saved:
        config, _ = resolve(Request(experiment, overrides=[f"runs_dir={folder}", "logging.tensorboard=false"]))
        with new_run(config, Console(quiet=True)) as orchestrator:
            orchestrator.run()
        saved = sorted(folder.glob(f"{experiment}-*/policy/latest"))
    return load_policy(saved[-1])


def evaluated(actor: ActorModule, task: str) -> Ways:
    kind = TASKS[task]
    evaluator = WaysEvaluator(WaysEvaluatorConfig(_target_="paddock.evaluation.ways.WaysEvaluator", ways=kind.ways))
    return evaluator(actor, kind, episodes=STARTS[task], seed=SEED, deterministic=False)


def drawn(actor: ActorModule, task: str, caption: str) -> np.ndarray:
    """The task from above with the paths of some starts; those that fail are orange and end in a cross."""
    env = TASKS[task](DRAWN, "rgb_array")
    observation, _ = env.reset(seed=SEED)
    paths, is_over, fails = [env.position.copy()], np.zeros(DRAWN, bool), np.zeros(DRAWN, bool)
    state, stop = actor.initial_state(DRAWN), np.full(DRAWN, env.max_steps)
    torch.manual_seed(SEED)
    for step in range(env.max_steps):
        with torch.inference_mode():
            action, state = actor.act({"observation": torch.as_tensor(observation)}, state, deterministic=False)
        observation, reward, terminated, truncated, _ = env.step(actor.to_environment(action))
        ended = (terminated | truncated) & ~is_over
        stop[ended], fails[ended] = step, reward[ended] == 0
        is_over |= ended
        paths.append(env.position.copy())
    picture = Image.fromarray(env.ground(FINER * PANEL)).convert("RGBA")
    (left, right), (_, high) = env.bounds
    scale = picture.width / (right - left)
    for copy in np.argsort(fails):  # Failures are drawn last, so that they are seen.
        points = [((x - left) * scale, (high - y) * scale) for x, y in (one[copy] for one in paths[: stop[copy] + 1])]
        layer = Image.new("RGBA", picture.size)
        pen, colour = ImageDraw.Draw(layer), FAILURE if fails[copy] else SUCCESS
        pen.line(points, fill=colour, width=2 * FINER, joint="curve")
        if fails[copy]:
            (x, y), reach = points[-1], 4 * FINER
            pen.line([(x - reach, y - reach), (x + reach, y + reach)], fill=colour, width=2 * FINER)
            pen.line([(x - reach, y + reach), (x + reach, y - reach)], fill=colour, width=2 * FINER)
        picture = Image.alpha_composite(picture, layer)
    panel = picture.convert("RGB").resize((picture.width // FINER, picture.height // FINER), Image.Resampling.LANCZOS)
    framed = Image.new("RGB", (panel.width, panel.height + CAPTION), "white")
    framed.paste(panel, (0, CAPTION))
    ImageDraw.Draw(framed).text((4, 5), caption, fill=(0, 0, 0), font=ImageFont.load_default(15))
    return np.asarray(framed)


def side_by_side(panels: list[np.ndarray]) -> np.ndarray:
    """Pictures of the same height with a white gap between them."""
    gap = np.full((len(panels[0]), GAP, 3), 255, np.uint8)
    parts = [part for panel in panels for part in (panel, gap)]
    return np.concatenate(parts[:-1], 1)


if __name__ == "__main__":
    main()
