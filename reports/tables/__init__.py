"""Tables: cells, and tables in plain text, HTML, Markdown and LaTeX."""
