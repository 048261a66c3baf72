"""The errors of this room that a user can mend. Imports nothing."""

from __future__ import annotations

__all__ = ["InputError", "StoreError"]


class InputError(ValueError):
    """Bad input, said in one line: what was seen, what was expected, the remedy."""


class StoreError(RuntimeError):
    """A store on disk is damaged, said in one line: what was seen, and how to get the run back."""
