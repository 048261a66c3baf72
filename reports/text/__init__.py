"""Text: rounded numbers, LaTeX, escaping of foreign text, sentences on key results."""
