"""Runs: settings, stages, record."""
