"""Argument parsing only, one file a verb."""
