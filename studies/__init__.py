"""Simulation studies behind the numbers of the docs. Not part of the installed package."""
