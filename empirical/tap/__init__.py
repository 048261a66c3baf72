"""The attention tap."""
