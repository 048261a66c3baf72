"""Assumption 1: value norms."""
