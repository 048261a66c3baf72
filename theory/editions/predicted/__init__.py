"""Predicted edition: an approximation of the three expectations."""
