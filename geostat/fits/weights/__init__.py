"""Assumption 3: the four-phase attention profile."""
