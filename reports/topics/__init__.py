"""Topics of a report: figures, captions, tables and page entries."""
