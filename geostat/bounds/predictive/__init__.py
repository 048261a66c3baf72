"""Curves predicted from the fits, checked by simulation."""
