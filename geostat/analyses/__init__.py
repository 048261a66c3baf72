"""Analyses of measured heads that need no model."""
