"""Runs: options, stages, store and record."""
