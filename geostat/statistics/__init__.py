"""Statistics of plain arrays: jackknife, equivalence tests, multiple testing, losses."""
