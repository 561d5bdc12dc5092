"""A dozen lines lap the twin in real time: a process of its own, its screen, its pad, its telemetry."""

import numpy as np

from trackmania_cases import drive, make_env, small_road


def test_longest_beam_driver_laps_the_twin_in_real_time(tmp_path):
    twin = {"track": small_road(tmp_path), "countdown": 0.5}
    env = make_env(clock="wall", numbers="tmrl", sleep_at_reset=0.5, ep_max_length=1_500, twin=twin)
    try:
        *_, terminated, _, info = drive(env, 1_500)
        assert terminated
        assert info["outcome"][0] == "finish"
        lap_time = info["final_info"]["lap_time"][0]
        told = env.interface._link.process.ask("state")["lap_time"]
        assert abs(lap_time - told) < 0.25  # a frame, and whatever the machine is late by
        assert np.isfinite(info["final_info"]["realtime"]["capture"][0])
    finally:
        env.close()
