"""Comparison of several runs: figures, tables, page."""
