"""Tables of one run, in Markdown and LaTeX."""
