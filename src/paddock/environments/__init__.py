"""Gymnasium vector environments, and what the lab asks of them beyond Gymnasium."""
