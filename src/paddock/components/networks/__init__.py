"""Networks, each taking sizes from the environment's Spec."""
