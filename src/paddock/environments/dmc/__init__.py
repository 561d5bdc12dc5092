"""DeepMind control suite tasks."""
