"""What is rewarded: terms, potentials and functions of the user."""
