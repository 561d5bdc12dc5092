"""What selects actions, and what values them: policies, critics, value functions, planners over any model."""
