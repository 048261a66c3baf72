"""What-if studies: grids, elasticities, target search."""
