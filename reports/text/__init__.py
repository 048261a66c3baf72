"""Numbers and LaTeX."""
