"""Arrays as named, described variables; flags."""
