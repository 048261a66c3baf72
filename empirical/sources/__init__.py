"""Sources: texts and their windows, models and their weights."""
