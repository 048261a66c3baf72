"""Mathematics and foreign text: rendered where it is ours, escaped where it is not."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reports.text.latex import (
    math_html,
    mixed_html,
    mixed_latex,
    prose_html,
    prose_latex,
    text_latex,
)

SPECIAL = re.compile(r"(?<!\\)[&%#_{}~^]")


def outside_maths(latex):
    """What stands outside dollar signs and commands with empty braces."""
    without = re.sub(r"(?<!\\)\$.*?(?<!\\)\$", "", latex)
    return re.sub(r"\\(textbackslash|textasciitilde|textasciicircum|dots|S)\{\}", "", without)


@given(st.text())
def test_any_text_is_safe_latex(text):
    latex = text_latex(text)
    assert not SPECIAL.search(outside_maths(latex))
    assert latex.isascii() or all(
        0xA0 < ord(character) < 0x180 for character in latex if not character.isascii()
    )
    assert len(re.findall(r"(?<!\\)\$", latex)) % 2 == 0
    assert "\n" not in latex


@given(st.text())
def test_any_text_is_safe_html_even_if_it_looks_like_maths(text):
    for html in (str(mixed_html(text)), str(math_html(text))):
        known = re.sub(
            r"</?(span|i|sub|sup)( class=\"math\"| style=\"text-decoration:(over|under)line\")?>",
            "",
            html,
        )
        assert "<" not in known
        assert ">" not in known


@pytest.mark.parametrize(
    ("latex", "words"),
    [
        (r"\beta", "β"),
        (r"\frac{2R}{1+R} \le \mathbb{E}F", "2R/(1+R) ≤ 𝔼F"),
        (r"p_{\mathrm{sink}}", "psink"),
        (r"e^{-\eta}", "e−η"),
        (r"\|v_i\|", "‖vi‖"),
        (r"\sqrt{2/\pi d}", "√(2/π d)"),
        (r"\hat\alpha_i", "α\u0302i"),
    ],
)
def test_maths_reads_as_written(latex, words):
    assert math_html(latex).striptags() == words


def test_an_index_is_set_below():
    assert "<i>ρ</i><sub>0</sub>" in math_html(r"\rho_0")


def test_maths_between_dollars_is_kept_and_the_rest_escaped():
    assert mixed_latex("50% of $a_1$ & b_") == r"50\% of $a_1$ \& b\_"
    assert text_latex("$a_1$") == r"\$a\_1\$"
    assert text_latex("中") == "[U+4E2D]"


def test_indices_and_exponents_in_plain_words_are_set():
    assert (
        mixed_html("a_min_in < e^{−κd} and R_lo")
        == "a<sub>min in</sub> &lt; e<sup>−κd</sup> and R<sub>lo</sub>"
    )
    assert mixed_latex("ρ_ij & e^{−β}") == r"$\rho$$_{\mathrm{ij}}$ \& e$^{-\beta}$"
    assert (
        mixed_latex("a_min_in and e^{−κd(Δ₀/B)² & ½ “x”}") == r"a$_{\mathrm{min}\ \mathrm{in}}$ and"
        r" e$^{-\kappa\mathrm{d}(\Delta{}_0/\mathrm{B}){}^2\ \mbox{\&}\ \frac12\ \mbox{``}"
        r"\mathrm{x}\mbox{''}}$"
    )


@pytest.mark.parametrize("name", ["a_b", "org/v_0", "p_1.gguf", "x^(2)", "cv_token"])
def test_a_foreign_name_in_a_sentence_stays_as_it_is(name: str):
    assert str(prose_html(f"In {name}, heads")) == f"In {name}, heads"
    assert prose_latex(f"In {name}, heads") == f"In {text_latex(name)}, heads"


def test_indices_and_exponents_of_our_own_sentences_are_set():
    said = prose_html("v_L, α_i v_i, p_sink and e^(−βk)")
    assert str(said) == (
        "v<sub>L</sub>, α<sub>i</sub> v<sub>i</sub>, p<sub>sink</sub> and e<sup>−βk</sup>"
    )
