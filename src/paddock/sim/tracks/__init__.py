"""Roads: where they come from, what they are made of, whether they can be driven."""
