"""What a world model knows: errors on held-out episodes, imagined beside real ones."""
