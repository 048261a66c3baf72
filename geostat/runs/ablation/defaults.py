"""What an ablation is measured of, unless told."""

from __future__ import annotations

from typing import Final

DOCUMENTS: Final = 4
LENGTH: Final = 256
"""Tokens of a window."""
