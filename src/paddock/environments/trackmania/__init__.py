"""TrackMania 2020 as a real-time environment, and a twin of the game that stands in for it."""
