"""Figure and table of a parameter study."""
