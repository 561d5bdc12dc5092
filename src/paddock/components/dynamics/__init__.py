"""Models of how the world goes on: recurrent state-space models and what belongs to them."""
