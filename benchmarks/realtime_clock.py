"""Jitter and drift of real-time steps on the wall clock, with and without a learner that keeps a core busy.

python benchmarks/realtime_clock.py [--rates 20 100] [--steps 200]

Each row: the duration of a step (median, 99th percentile, worst) less the nominal one, and the drift of the last step
from the grid, ms. The learner multiplies matrices in a process of its own.
"""

from __future__ import annotations

import argparse
import multiprocessing
import time

import numpy as np

from paddock.environments.realtime.cart import Cart
from paddock.environments.realtime.clock import SECOND, WallClock
from paddock.environments.realtime.loop import LoopSettings, RealTimeLoop


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rates", type=float, nargs="+", default=[20.0, 100.0], help="steps/s")
    parser.add_argument("--steps", type=int, default=200)
    options = parser.parse_args()
    print("| steps/s | learner | median | p99 | worst | drift | timed out |\n|---|---|---|---|---|---|---|")
    for rate in options.rates:
        for has_learner in (False, True):
            learner = multiprocessing.get_context("spawn").Process(target=learn, daemon=True)
            if has_learner:
                learner.start()
                time.sleep(2.0)
            print(row(rate, has_learner, options.steps), flush=True)
            if has_learner:
                learner.kill()
                learner.join()


def learn() -> None:
    weights = np.ones((256, 256), np.float32)
    while True:
        weights = np.tanh(weights @ weights)


def row(rate: float, has_learner: bool, steps: int) -> str:
    """One line of the table."""
    times, timed_out = measure(1.0 / rate, steps)
    errors = np.abs(np.diff(times) - 1.0 / rate) * 1_000
    drift = (times[-1] - times[0] - steps / rate) * 1_000
    figures = [np.median(errors), np.percentile(errors, 99), errors.max(), drift]
    cells = [f"{rate:g}", "yes" if has_learner else "no", *(f"{figure:.2f}" for figure in figures), str(timed_out)]
    return f"| {' | '.join(cells)} |"


def measure(duration: float, steps: int) -> tuple[np.ndarray, int]:
    """When each step came back, s, from the reset on, and how many timed out."""
    settings = LoopSettings(time_step_duration=duration, start_obs_capture=duration)
    loop = RealTimeLoop(Cart, settings, WallClock(), "cart")
    loop.reset(seed=1)
    times, timed_out = [loop.clock.now() / SECOND], 0
    action = loop.default_action
    for _ in range(steps):
        timing = loop.step(action)[5]
        times.append(loop.clock.now() / SECOND)
        timed_out += timing.timed_out
    loop.close()
    return np.array(times), timed_out


if __name__ == "__main__":
    main()
