"""Sharp edition: the exact pairwise law under Model G and the pairwise bounds from it."""
