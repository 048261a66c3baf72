"""Fits of the assumptions."""
