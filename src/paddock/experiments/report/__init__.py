"""Pages that show runs and searches."""
