"""Statements on the softmax normaliser, measured for the heads of a run (`geostat normaliser`)."""
