"""Identifiability: which phases stand out of the noise, and what the data place."""
