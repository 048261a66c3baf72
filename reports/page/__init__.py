"""The page of one run."""
