"""Evaluation of bounds: one head, or many."""
