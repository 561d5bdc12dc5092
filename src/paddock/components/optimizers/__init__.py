"""Optimizers over flat parameters."""
