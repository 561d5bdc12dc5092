"""The racing world as a Gymnasium vector environment."""
