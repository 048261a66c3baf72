"""Methods of a run, `run.geostat`: how it shows itself, its summary, parts of it."""
