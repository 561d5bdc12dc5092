"""A person at the wheel in real time, with or against agents."""
