"""Figures and tables of a what-if study."""
