"""Counting conventions for tokens in balls: the paper's and the follow-up's.

Sources: arXiv 2602.01893, Definitions 1-2, Corollary 1; arXiv 2609.37879. Imports nothing heavy.
"""

from __future__ import annotations

from enum import StrEnum


class Convention(StrEnum):
    """Convention for counting balls and F. Recorded with every result."""

    PAPER = "paper"
    """Closed balls, F for each radius (Definitions 1-2, Corollary 1); P = R = 1 at N = T."""
    FOLLOWUP = "followup"
    """Closed outer ball, open inner ball, one F from P(r_max) and R(r_min). N < T only."""
