"""Catalogue of statements: search, rendering, dimensions."""
