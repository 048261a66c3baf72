"""Conditional edition: bounds given the sum of the selected contributions."""
