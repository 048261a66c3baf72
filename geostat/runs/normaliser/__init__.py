"""The normaliser's statements beside a run's heads."""
