"""The one error this room raises for bad input. Imports nothing."""


class InputError(ValueError):
    """What was seen, what was expected, and the remedy, in one line."""
