"""The `geostat` command."""
