"""Collectors and campaigns on a Ray cluster; importing this package imports nothing heavy."""
