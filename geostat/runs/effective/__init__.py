"""The effective attention set size of a run's model."""
