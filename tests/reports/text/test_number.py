"""Rounding: value and error are rounded together, and missing values print as n/a."""

import re
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reports.text.number import MISSING, TWO_DIGITS_BELOW, count, percent, rounded

values = st.floats(-1e12, 1e12, allow_nan=False, allow_subnormal=False)
errors = st.floats(1e-9, 1e9, allow_nan=False, allow_subnormal=False)


@given(values, errors | st.just(1e-300))
def test_rounding_moves_a_value_by_at_most_half_the_last_digit_that_it_shares_with_its_error(
    value, error
):
    shown = rounded(value, error)
    decimals = len(shown.value.partition(".")[2])
    assert decimals == len(shown.error.partition(".")[2])
    shown_value, shown_error = (
        Decimal(word).scaleb(shown.power) for word in (shown.value, shown.error)
    )
    last = Decimal(1).scaleb(shown.power - decimals)
    if last == 1 and shown_error:  # tens or hundreds may be rounded
        first = Decimal(1).scaleb(shown_error.adjusted())
        last = max(last, first / 10 if shown_error / first < TWO_DIGITS_BELOW else first)
    assert abs(shown_value - Decimal(value)) <= last * Decimal("0.5000001")
    assert shown_error > 0


# Particle Data Group, Review of Particle Physics, Introduction, section 5.3: "if the three highest
# order digits of the error lie between 100 and 354, we round to two digits. If they lie between 355
# and 949, we round to one digit. Finally, if they lie between 950 and 999, we round up to 1000 and
# keep two significant digits." Its own examples: 0.827 ± 0.119, 0.827 ± 0.367.
@given(st.integers(100, 999), st.integers(-4, 0))
def test_the_error_keeps_the_digits_of_the_particle_data_group(three, power):
    shown = rounded(0.827, float(Decimal(three).scaleb(power)))
    step = 10 if three < 355 or three >= 950 else 100
    expected = (Decimal(three) / step).quantize(Decimal(1)) * step if three < 950 else 1000
    assert Decimal(shown.error) == Decimal(expected).scaleb(power)
    if power < -2:  # not rounded before the point
        assert len(shown.error.replace(".", "").lstrip("0")) == (1 if step == 100 else 2)


@given(st.sampled_from([float("nan"), float("inf"), -float("inf")]), st.one_of(st.none(), errors))
def test_a_missing_value_is_n_a_in_every_form(value, error):
    shown = rounded(value, error)
    assert shown.plain == shown.html == shown.latex == MISSING


@given(values, st.one_of(st.none(), errors, st.just(float("nan"))))
def test_all_forms_show_the_same_digits_and_an_unknown_error_as_n_a(value, error):
    shown = rounded(value, error)
    assert ("±" in shown.plain) == (error is not None)
    assert ("± n/a" in shown.plain) == (error is not None and error != error)
    html = re.sub(r"<sup>[^<]*</sup>", "", shown.html).replace("−", "-")
    latex = re.sub(r"\^\{[^}]*\}|\\mathrm|[{}]", "", shown.latex.strip("$"))
    latex = latex.replace(r"\pm", "±").replace(r"\times 10", "×10")
    plain = shown.plain.rstrip("⁰¹²³⁴⁵⁶⁷⁸⁹⁻")
    assert plain == html == latex


@pytest.mark.parametrize(
    ("value", "error", "expected"),
    [
        (0.1234, 0.0456, "0.12 ± 0.05"),
        (0.827, 0.119, "0.83 ± 0.12"),
        (0.827, 0.367, "0.8 ± 0.4"),
        (1.2345e-5, 3e-7, "(1.234 ± 0.030)×10⁻⁵"),
        (1234, 567, "1200 ± 600"),
        (0.0996, 0.0996, "0.10 ± 0.10"),
        (57, 0, "57 ± 0"),
        (-0.2, 25, "0 ± 25"),
        (0, 1e-6, "(0.0 ± 1.0)×10⁻⁶"),
        (0.5, float("nan"), "0.500 ± n/a"),
        (1e-5, None, "1.00×10⁻⁵"),
        (1024, None, "1024"),
        (-0.0, None, "0"),
    ],
)
def test_examples(value, error, expected):
    assert rounded(value, error).plain == expected


def test_rounding_never_gives_0_or_100_percent():
    shown = [percent(share) for share in (0, 0.00001, 0.975, 0.99999, 1, float("nan"))]
    assert shown == ["0%", "< 0.1%", "97.5%", "> 99.9%", "100%", MISSING]


def test_counts_have_plural_nouns():
    shown = [count(1, "head"), count(2, "head"), count(8192, "token")]
    assert shown == ["1 head", "2 heads", "8,192 tokens"]
