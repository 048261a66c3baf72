"""Datasets for display: curves, bands, shares and counts that `reports` draws."""
