"""The reference lap of a track and a car, and the classical driver that follows it."""
