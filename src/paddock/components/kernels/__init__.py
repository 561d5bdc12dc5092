"""Compiled kernels of learning, over NumPy arrays."""
