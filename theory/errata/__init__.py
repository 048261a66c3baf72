"""Errata of the papers, each with a counterexample."""
