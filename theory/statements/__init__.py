"""Catalogue of statements: expression, conditions, source, edition, erratum."""
