"""The one error that the reports raise for input that they cannot render."""


class InputError(ValueError):
    """Bad input: one line with what was seen, what was expected, and the remedy."""
