"""Effective attention set size of a run's model (`geostat effective`)."""
