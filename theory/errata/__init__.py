"""Errata: what is wrong in print, each with a counterexample."""
