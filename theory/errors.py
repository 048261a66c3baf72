"""Error that `theory` raises for bad input. Imports nothing."""


class InputError(ValueError):
    """Invalid input: one line with the value seen, the value expected and the remedy."""
