"""Tables of what was fitted."""
