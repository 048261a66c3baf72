"""Runs at URLs: working copies on a machine, what changed of them sent and fetched."""
