"""Paddock: a reinforcement-learning lab for driving and control. Importing it imports nothing heavy."""

__version__ = "0.1.0"
