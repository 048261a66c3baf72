"""Columns of a table on paper: numbers in the syntax of siunitx, words in braces."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reports.tables.cells import between, missing, mixed, number, percentage, text, whole
from reports.tables.paper.columns import Column, column, plain, scientific
from reports.tables.paper.width import width

HEADER = mixed("x")


def made(*cells, letter="r") -> Column:
    return column(HEADER, cells, letter)


def test_a_column_of_numbers_has_room_for_the_widest_of_each_part():
    found = made(number(0.671, 0.005), number(-12.3, 1.2), number(float("nan"), 1.0))
    assert found.kind == "S"
    assert found.options == "table-format=-2.3(2)"
    assert found.cells == ["0.671(5)", "-12.3(12)", "{n/a}"]
    assert found.header == "{x}"


def test_an_unknown_error_leaves_the_value_and_zero_has_no_sign():
    assert made(number(0.5, float("nan")), number(-0.0)).cells == ["0.500", "0"]


def test_powers_of_ten_stand_in_all_numbers_of_a_column_or_in_none():
    assert made(number(1e-12, 1e-13), number(0.5, 0.1)).cells == ["1.00(10)e-12", "5.0(10)e-1"]
    assert made(number(5e-4), number(0.5)).cells == ["0.000500", "0.500"]


def test_shares_keep_their_sign_behind_the_number():
    found = made(percentage(0.25), percentage(1e-9), percentage(1.0))
    assert found.cells == [r"25.0{\%}", r"{$<$ 0.1\%}", r"100{\%}"]
    assert r"table-space-text-post={\%}" in found.options


def test_words_among_numbers_make_no_column_of_numbers():
    found = made(text("a"), text("b"), whole(3))
    assert (found.kind, found.cells) == ("r", ["a", "b", "$3$"])


def test_a_long_cell_of_words_may_break():
    found = made(between(-0.0553, -0.00895, 0.0341))
    assert found.kind == "r"
    assert found.tight().kind.startswith(r">{\raggedleft\arraybackslash}p{")
    assert found.tight().wanted < found.wanted
    assert made(text("a"), text("b")).tight().kind == "r"


def test_a_header_is_no_wider_than_its_longest_word_or_its_column():
    found = column(mixed("nearer than other heads"), [whole(1)], "r")
    lines = r"nearer\\ than\\ other\\ heads"
    assert found.header == rf"{{\begin{{tabular}}[b]{{@{{}}c@{{}}}}{lines}\end{{tabular}}}}"


def test_words_go_on_in_the_next_line_where_they_do_not_fit():
    found = made(text("mm mm mm mm"), letter="p")
    wide = width("mm")
    assert [found.lines(room)[0] for room in (wide, 2 * wide, 2.5 * wide, 9 * wide)] == [4, 4, 2, 1]
    assert made(text("mm mm")).lines(wide) == [1]


@pytest.mark.parametrize("first", ["[", "*"])
def test_what_the_end_of_a_row_would_take_up_is_kept_from_it(first: str):
    for letter in "lp":
        assert made(text(f"{first}a"), letter=letter).cells == [f"{{}}{first}a"]


@given(st.floats(-1e9, 1e9), st.one_of(st.none(), st.floats(1e-9, 1e9)))
def test_both_ways_of_writing_a_number_give_its_value(value: float, error: float | None):
    given = number(value, error).number
    expected = in_full(given)
    for written in (plain(given), scientific(given)):
        assert in_full(written) == expected
        assert (
            written.partition("(")[2].partition(")")[0] == given.partition("(")[2].partition(")")[0]
        )


def in_full(written: str) -> Decimal:
    """The value of a number as it is written, without its error."""
    digits, _, power = written.partition("e")
    return Decimal(digits.partition("(")[0]).scaleb(int(power or 0))


def test_what_is_missing_alone_is_no_number():
    assert made(missing(), missing()).kind == "r"
