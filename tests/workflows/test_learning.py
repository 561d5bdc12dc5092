"""Every workflow learns a tiny task to a threshold. The long runs are in benchmarks/."""


def test_ppo_learns_choices(experiment):
    """The pole stands for the whole 500 steps long before the shipped experiment's 100,000 are over."""
    hooks = "[{collect: {steps: 512}}, update, {evaluate: {every_steps: 8_192}}]"
    outcome = experiment(
        "environment.num_envs=8",
        "workflow.rollout_steps=512",
        "workflow.minibatch_size=128",
        "workflow.epochs=10",
        "evaluation.episodes=10",
        f"training.phases=[{{name: learn, buffer: rollout, until: 'eval/return >= 450', workflow_hooks: {hooks}}}]",
        "training.total_steps=98_304",
    ).run()
    assert outcome.latest["eval/return"] >= 450


def test_ppo_learns_continuous_actions_with_normalisation(experiment):
    """From about -1200 for a pendulum that hangs to one that mostly stands."""
    hooks = "[{collect: {steps: 4_096}}, update, {evaluate: {every_steps: 16_384}}]"
    outcome = experiment(
        "environment.id=Pendulum-v1",
        "environment.num_envs=8",
        "workflow.rollout_steps=4_096",
        "workflow.minibatch_size=128",
        "workflow.epochs=10",
        "workflow.gamma=0.9",
        "workflow.anneal_clip=false",
        "components.observation_normalizer.enabled=true",
        "components.reward_normalizer.enabled=true",
        "evaluation.episodes=10",
        f"training.phases=[{{name: learn, buffer: rollout, until: 'eval/return >= -500', workflow_hooks: {hooks}}}]",
        "training.total_steps=196_608",
    ).run()
    assert outcome.latest["eval/return"] >= -500
