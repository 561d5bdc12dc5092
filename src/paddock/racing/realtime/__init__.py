"""The racing world in real time: it goes on by a clock of its own while the agent thinks."""
