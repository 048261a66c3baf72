"""Widths of LaTeX text: near those that Computer Modern has."""

import pytest

from reports.tables.paper.width import width


# \\settowidth in \\footnotesize of a plain article, pdfTeX 1.40.24.
@pytest.mark.parametrize(
    ("latex", "points"),
    [
        (r"$0.67 \pm 0.05$", 40.6),
        ("exponential", 42.7),
        ("median CV 0.2 within a document", 128.7),
        (r"$1.25\times 10^{-6}$", 43.9),
        ("HuggingFaceTB/SmolLM2-135M", 123.1),
        (r"$\rho_0$", 8.5),
        (r"$p_{\mathrm{base}}$", 18.7),
        (r"$\le$ 0.05", 24.6),
        (r"$\log\alpha$", 17.9),
        (r"$\mathrm{CV}$ profile", 38.6),
        (r"$-0.5$", 18.0),
        (r"90--100\%", 32.6),
    ],
)
def test_a_width_is_that_of_tex_or_a_little_more(latex: str, points: float):
    assert points <= width(latex) <= 1.15 * points + 2
