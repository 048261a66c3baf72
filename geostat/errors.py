"""The one error that geostat raises for bad input."""


class InputError(ValueError):
    """What was seen, what was expected, and the remedy, in one line."""
