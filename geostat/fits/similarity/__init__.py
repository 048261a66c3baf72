"""Assumption 2: cosine similarity by lag."""
