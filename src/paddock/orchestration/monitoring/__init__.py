"""Watching a run from inside: alerts and what they set off."""
