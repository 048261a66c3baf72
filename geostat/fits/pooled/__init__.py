"""Fits of a layer or a whole model, pooled over heads; trends over depth."""
