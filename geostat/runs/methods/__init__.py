"""Accessor `run.geostat`: representation, summary and selection of a run."""
