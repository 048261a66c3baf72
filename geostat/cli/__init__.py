"""Command line: `geostat`."""
