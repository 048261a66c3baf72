"""Scoreboard of the paper's claims."""
