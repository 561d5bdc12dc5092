"""Returns and advantages as pure functions over [T, B]."""
