"""The training loop and everything around it that is not an algorithm."""
