"""What turns observations into features, and features back into observations."""
