"""Gymnasium vector environments, and what the lab asks of them beyond Gymnasium.

Importing this makes `paddock/Racing-v0`, `paddock/Recall-v0` and `paddock/BalancePendulum-v0` known to Gymnasium; they
load when one is made.
"""

import gymnasium

if "paddock/Racing-v0" not in gymnasium.registry:
    gymnasium.register(
        "paddock/Racing-v0",
        entry_point="paddock.racing.env.vector:RacingEnv",
        vector_entry_point="paddock.racing.env.vector:RacingVectorEnv",
        max_episode_steps=2_000,
    )
if "paddock/Recall-v0" not in gymnasium.registry:
    gymnasium.register("paddock/Recall-v0", entry_point="paddock.environments.recall:RecallEnv")
if "paddock/BalancePendulum-v0" not in gymnasium.registry:
    gymnasium.register(
        "paddock/BalancePendulum-v0",
        entry_point="paddock.environments.balance:BalancePendulumEnv",
        max_episode_steps=200,
    )
if "paddock/Dodge-v0" not in gymnasium.registry:
    gymnasium.register("paddock/Dodge-v0", vector_entry_point="paddock.environments.dodge:DodgeVectorEnv")
if "paddock/TwoWays-v0" not in gymnasium.registry:
    gymnasium.register("paddock/TwoWays-v0", vector_entry_point="paddock.environments.two_ways:TwoWaysVectorEnv")
if "paddock/Avoiding-v0" not in gymnasium.registry:
    gymnasium.register("paddock/Avoiding-v0", vector_entry_point="paddock.environments.avoiding:AvoidingVectorEnv")
if "paddock/Dream-v0" not in gymnasium.registry:
    gymnasium.register("paddock/Dream-v0", vector_entry_point="paddock.dream.env:DreamVectorEnv")
