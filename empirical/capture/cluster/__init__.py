"""Capture on many processes, on one machine or several, by Dask distributed."""
