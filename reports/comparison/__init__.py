"""Several runs side by side: figures, tables, page."""
