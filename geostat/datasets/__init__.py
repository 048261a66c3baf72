"""Labelled variables from arrays and estimates, flags, and access to /capture."""
