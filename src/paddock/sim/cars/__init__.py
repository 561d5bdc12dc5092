"""Cars: their parameters and what follows from them."""
