"""Environments that go on while the agent thinks: an elastic clock around any interface with rtgym's methods."""
