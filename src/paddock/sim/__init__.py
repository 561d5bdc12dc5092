"""The racing world: pure, batched, no gymnasium and no torch."""
