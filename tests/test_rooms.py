"""Sizes of the rooms, as `benchmarks.rooms` counts them."""

from benchmarks.rooms import Size, lines, size

WIDE = '''"""A module."""

def f(first, second):  # adds both
    """Return the sum."""
    return first + second, "one text"

LIMIT = 3
"""Of a constant."""
'''
NARROW = '''"""A
module.
"""

def f(
    first,
    second,
):
    # adds
    # both
    """Return
    the sum.
    """
    return (
        first
        + second,
        "one "
        "text",
    )


LIMIT = (
    3
)
"""Of a
constant.
"""
'''


def test_the_width_of_a_page_changes_neither_code_nor_prose():
    assert size(WIDE) == size(NARROW)


def test_lines_at_one_width_are_those_of_code_and_of_filled_prose():
    assert lines(WIDE) == lines(NARROW)
    # Docstring of the module, two empty lines; def, docstring, return, two empty lines; constant,
    # docstring; the comment.
    assert lines(WIDE) == 1 + 2 + 3 + 2 + 2 + 1


def test_code_is_counted_in_tokens_and_prose_in_words():
    # def f ( first , second ) : | return ( first + second , "one text" ) | LIMIT = 3; written in
    # full, a tuple has its brackets.
    assert size(WIDE) == Size(tokens=8 + 8 + 3, words=2 + 3 + 2 + 3)


def test_a_string_that_is_a_value_is_code():
    assert size('x = "two words"') == Size(tokens=3, words=0)


def test_sizes_add_up():
    assert sum([Size(1, 2), Size(3, 4)], Size()) == Size(4, 6)
