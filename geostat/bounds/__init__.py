"""Bounds laid over the measured curves."""
