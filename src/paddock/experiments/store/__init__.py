"""The store of runs: index, filters, lists, details, export, cleanup."""
