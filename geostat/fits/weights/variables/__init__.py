"""Variables of /weights: their records."""
