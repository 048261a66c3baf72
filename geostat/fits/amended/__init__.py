"""Amended assumptions: what holds by rank of the attention weight."""
