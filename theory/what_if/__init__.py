"""Parameter studies: grids, elasticities, inversion."""
