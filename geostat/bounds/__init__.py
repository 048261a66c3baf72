"""Bounds compared with measured curves."""
