"""Measurements of one layer: selection, curves, cosines, baselines."""
