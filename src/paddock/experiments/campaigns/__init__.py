"""Many runs: seeds, sweeps, searches."""
