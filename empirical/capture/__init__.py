"""Capture: every document through the model, observed and stored."""
