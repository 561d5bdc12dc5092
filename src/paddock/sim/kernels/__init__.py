"""The compiled loops over cars: one file a subject. Numba, no objects."""
