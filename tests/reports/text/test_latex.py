"""Mathematics and foreign text: geostat's text is rendered, foreign text is escaped."""

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
    """Return LaTeX without maths and commands with empty braces."""
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
def test_any_text_is_safe_html(text):
    for html in (str(mixed_html(text)), str(math_html(text))):
        rest = re.sub(
            r"</?(span|i|sub|sup)( class=\"math\"| style=\"text-decoration:(over|under)line\")?>",
            "",
            html,
        )
        assert {"<", ">"} & set(rest) == set()


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
def test_maths_is_rendered(latex, words):
    assert math_html(latex).striptags() == words


def test_an_index_is_a_subscript_and_maths_between_dollars_is_unchanged():
    assert "<i>ρ</i><sub>0</sub>" in math_html(r"\rho_0")
    assert mixed_latex("50% of $a_1$ & b_") == r"50\% of $a_1$ \& b\_"
    assert text_latex("$a_1$") == r"\$a\_1\$"
    assert text_latex("中") == "[U+4E2D]"


def test_indices_and_exponents_in_plain_text_are_rendered():
    html = mixed_html("a_min_in < e^{−κd} and R_lo")
    assert html == "a<sub>min in</sub> &lt; e<sup>−κd</sup> and R<sub>lo</sub>"
    assert mixed_latex("ρ_ij & e^{−β}") == r"$\rho$$_{\mathrm{ij}}$ \& e$^{-\beta}$"
    assert mixed_latex("a_min_in and e^{−κd(Δ₀/B)² & ½ “x”}") == (
        r"a$_{\mathrm{min}\ \mathrm{in}}$ and e$^{-\kappa\mathrm{d}(\Delta{}_0/\mathrm{B}){}^2\ "
        r"\mbox{\&}\ \frac12\ \mbox{``}\mathrm{x}\mbox{''}}$"
    )


@pytest.mark.parametrize("name", ["a_b", "org/v_0", "p_1.gguf", "x^(2)", "cv_token"])
def test_a_foreign_name_in_a_sentence_is_unchanged(name: str):
    assert str(prose_html(f"In {name}, heads")) == f"In {name}, heads"
    assert prose_latex(f"In {name}, heads") == f"In {text_latex(name)}, heads"


def test_indices_and_exponents_of_sentences_are_rendered():
    assert str(prose_html("v_L, α_i v_i, e^(−βk), r_max of norms.cv_token in x_y_z <b>$a_1$")) == (
        "v<sub>L</sub>, α<sub>i</sub> v<sub>i</sub>, e<sup>−βk</sup>, r<sub>max</sub> of"
        " norms.cv_token in x_y_z &lt;b&gt;$a_1$"
    )
