"""Evaluating policies: evaluators, their results, diagnostics of world models."""
