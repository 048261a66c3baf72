"""Editions of the bounds: printed, repaired, sharp, conditional, predicted."""
