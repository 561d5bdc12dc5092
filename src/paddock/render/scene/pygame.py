"""The one place that imports pygame: quietly, and without a window."""

import os

os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")
import pygame

__all__ = ["pygame"]
