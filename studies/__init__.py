"""Simulation studies behind the numbers of the docs; no part of the installed package."""
