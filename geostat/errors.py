"""The errors that geostat raises: for bad input, and for a verdict that was required and is not there."""


class InputError(ValueError):
    """What was seen, what was expected, and the remedy, in one line."""


class Unmet(Exception):
    """A verdict that was required is not met; says which, in one line."""
