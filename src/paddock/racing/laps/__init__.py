"""Laps: driving them, timing them, tracing them, keeping them as files."""
