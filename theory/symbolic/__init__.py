"""Symbols, and statements with their sympy expressions."""
