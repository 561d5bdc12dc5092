"""TMRL's files, classes and flags: reading them as data, writing them, and running what is shaped like them."""
