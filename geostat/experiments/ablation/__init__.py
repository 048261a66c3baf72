"""Loss increase from ablating heads, and whether geometry predicts it (`geostat ablate`)."""
