"""Several learners of one run: ranks that share its updates."""
