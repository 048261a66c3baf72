"""Symbols, definitions, margins and bounds as expressions."""
