"""A run that is stopped in its middle, for what comes after."""


def stop_after(orchestrator, actions):
    """Run until so many actions of the phases have been performed, then stop as a person would; it is not finished."""
    perform, count = orchestrator._perform, 0

    def counted(action):
        nonlocal count
        perform(action)
        count += 1
        if count == actions:
            orchestrator.control.stop_requested_by = "test"

    orchestrator._perform = counted
    assert orchestrator.run().status == "stopped"
