"""Comparing runs: curves, statistics, laps."""
