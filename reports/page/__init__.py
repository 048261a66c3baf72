"""Report page of one run."""
