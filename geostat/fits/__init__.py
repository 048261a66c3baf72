"""Fits of Assumptions 1-3."""
