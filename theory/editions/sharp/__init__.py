"""Sharp edition: the exact pairwise law under Model G and the best bounds from it."""
