"""Figures of one run, on given axes."""
