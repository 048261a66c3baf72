"""Studies of the bounds."""
