"""Editions: the numbers of one selection, printed, repaired, sharp, conditional, predicted."""
