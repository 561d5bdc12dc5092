"""What every room may use: specs, seeding, cadences, trees of arrays, errors, lazy loading."""
