"""Figures: drawing, captions and files."""
