"""What an effective set size is measured of, unless told."""

from __future__ import annotations

from typing import Final

DOCUMENTS: Final = 4
LENGTH: Final = 512
"""Tokens of a window."""
