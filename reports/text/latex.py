"""Mathematics and foreign text in two languages: a small part of LaTeX to HTML, and any text to safe LaTeX.

Symbols and equations travel in the datasets as LaTeX; the page must show them without fetching a typesetter.
Imports markupsafe (with jinja2).
"""

from __future__ import annotations

import re
from typing import Final

from markupsafe import Markup, escape


def _pairs(table: str) -> dict[str, str]:
    """Read `name sign name sign …`."""
    words = table.split()
    return dict(zip(words[::2], words[1::2], strict=True))


_GREEK = _pairs(
    """alpha α beta β gamma γ delta δ epsilon ε varepsilon ε zeta ζ eta η theta θ kappa κ lambda λ mu μ nu ν xi ξ pi π rho ρ
    sigma σ tau τ phi φ varphi φ chi χ psi ψ omega ω
    Gamma Γ Delta Δ Theta Θ Lambda Λ Xi Ξ Pi Π Sigma Σ Phi Φ Psi Ψ Omega Ω"""
)
_SIGNS = (
    _pairs(
        r"""le ≤ leq ≤ ge ≥ geq ≥ lesssim ≲ gtrsim ≳ ll ≪ gg ≫ ne ≠ neq ≠ approx ≈ in ∈ notin ∉ succeq ⪰ setminus ∖ cdot ·
        times × pm ± to → infty ∞ sum ∑ prod ∏ max max min min exp exp log log cos cos sin sin Pr Pr det det langle ⟨ rangle ⟩
        ldots … dots … cdots ⋯ partial ∂ propto ∝ sim ∼ Leftrightarrow ⇔ Rightarrow ⇒ implies ⇒ forall ∀ cup ∪ cap ∩ emptyset ∅
        ell ℓ lvert | rvert | lVert ‖ rVert ‖ | ‖ { { } } % % & & _ _ # # $ $"""
    )
    | dict.fromkeys(("quad", "qquad", ",", ";", ":", " ", "\\"), " ")
    | {"!": ""}
)
_DROPPED = {"left", "right", "big", "Big", "bigl", "bigr", "Bigl", "Bigr", "displaystyle", "textstyle", "limits", "nolimits"}
_UPRIGHT = {"mathrm", "text", "operatorname", "mathit", "mathbf", "mathsf", "textrm"}
_ACCENTS = {"hat": "\u0302", "tilde": "\u0303", "bar": "\u0304"}
_BLACKBOARD = {"E": "𝔼", "P": "ℙ", "R": "ℝ", "N": "ℕ", "Z": "ℤ"}
_TOKEN = re.compile(r"\\[A-Za-z]+|\\.|[{}_^]|[^\\{}_^]", re.DOTALL)

_COMMAND = re.compile(r"\\[A-Za-z]{2,}")
_EXPONENT = r"\^\{(?P<sup>[^{}]*)\}|\^\((?P<round>[^()]*)\)"
_SCRIPT = re.compile(r"(?<=[A-Za-z\u0370-\u03ff])_(?P<sub>[A-Za-z0-9]+(?:_[A-Za-z0-9]+)*)|" + _EXPONENT)
"""An index or exponent as plain words write it: a_min_in, e^{-x}, e^(-x)."""
_SCRIPT_OF_LETTER = re.compile(r"(?<![\w$])(?P<letter>[A-Za-z\u0370-\u03ff])_(?P<sub>[A-Za-z0-9]+)(?!\w)|" + _EXPONENT)
"""An exponent, or an index of a single letter: v_L, but no name such as cv_token."""

_LATEX_TEXT: Final = (
    _pairs(
        r"""\ \textbackslash{} & \& % \% $ \$ # \# _ \_ { \{ } \} ~ \textasciitilde{} ^ \textasciicircum{} < $<$ > $>$ | $|$ " ''
        ± $\pm$ × $\times$ · $\cdot$ − $-$ – -- — --- … \dots{} ≤ $\le$ ≥ $\ge$ ≠ $\ne$ ≈ $\approx$ ≪ $\ll$ ≲ $\lesssim$
        ≳ $\gtrsim$ ∈ $\in$ ∉ $\notin$ ∞ $\infty$ √ $\surd$ ∑ $\sum$ → $\to$ ⇔ $\Leftrightarrow$ ⇒ $\Rightarrow$ ‖ $\|$
        𝔼 $\mathbb{E}$ ² $^2$ ³ $^3$ ½ $\frac12$ ° $^\circ$ ⁻ $^-$ ∖ $\setminus$ ⟨ $\langle$ ⟩ $\rangle$ ’ ' ‘ ` “ `` ” ''
        § \S{} ᵀ $^\top$ ∅ $\emptyset$ ⪰ $\succeq$ › $>$"""
    )
    | {sign: rf"$\{name}$" for name, sign in _GREEK.items() if not name.startswith("var")}
    | dict.fromkeys("\u0304\u0332", "")
)
_SUBSCRIPTS: Final = {sign: f"$_{digit}$" for digit, sign in enumerate("₀₁₂₃₄₅₆₇₈₉")}
_SUPERSCRIPTS: Final = {sign: f"$^{digit}$" for digit, sign in enumerate("⁰¹²³⁴⁵⁶⁷⁸⁹")}
_LATEX_LETTERS: Final = re.compile(r"[\x20-\x7e\u00a1-\u017f]")


def math_html(latex: str) -> Markup:
    """Render LaTeX maths as HTML: letters in italics, subscripts, Greek, fractions on one line. Unknown commands show their name."""
    tokens = _TOKEN.findall(latex)
    return Markup('<span class="math">') + _sequence(tokens, 0)[0] + Markup("</span>")


def mixed_html(text: str) -> Markup:
    """Render our own words as HTML: LaTeX between dollar signs, and `a_min`, `e^{x}` in plain words.

    A text with LaTeX commands but no dollar signs is taken as LaTeX throughout.
    """
    if "$" not in text and _COMMAND.search(text):
        return math_html(text)
    pieces = re.split(r"\$([^$]+)\$", text)
    return Markup("").join(math_html(piece) if index % 2 else _scripts_html(piece) for index, piece in enumerate(pieces))


def prose_html(text: str) -> Markup:
    """Render a sentence as HTML, in which foreign names may stand: `v_L` and `e^(-x)` become indices and exponents, everything else is escaped."""
    return _scripts_html(text, _SCRIPT_OF_LETTER)


def _scripts_html(text: str, script: re.Pattern[str] = _SCRIPT) -> Markup:
    """Escape plain words, setting `a_min_in` and `e^{x}` as indices and exponents."""
    end, out = 0, Markup("")
    for span in script.finditer(text):
        tag, body = _script(span)
        out += (
            escape(text[end : span.start()] + (span.groupdict().get("letter") or ""))
            + Markup(f"<{tag}>")
            + escape(body)
            + Markup(f"</{tag}>")
        )
        end = span.end()
    return out + escape(text[end:])


def _script(span: re.Match[str]) -> tuple[str, str]:
    """The kind of an index or exponent, sub or sup, and its words."""
    return ("sub", span["sub"].replace("_", " ")) if span["sub"] else ("sup", span["sup"] or span["round"] or "")


def text_latex(text: str) -> str:
    """Escape any text for LaTeX; characters that plain pdflatex has no letter for are written [U+1234]."""
    text = "".join(" " if character.isspace() else character for character in text)
    return "".join(_latex_character(character) for character in text)


def mixed_latex(text: str) -> str:
    """Render our own words as LaTeX, as `mixed_html` reads them."""
    if "$" not in text and _COMMAND.search(text):
        return f"${text}$"
    pieces = re.split(r"\$([^$]+)\$", text)
    return "".join(f"${piece}$" if index % 2 else _scripts_latex(piece) for index, piece in enumerate(pieces))


def _scripts_latex(text: str) -> str:
    """Escape plain words, setting `a_min_in` and `e^{x}` as indices and exponents."""
    end, out = 0, ""
    for span in _SCRIPT.finditer(text):
        kind, body = _script(span)
        out += text_latex(text[end : span.start()]) + f"${'_' if kind == 'sub' else '^'}{{{_script_latex(body)}}}$"
        end = span.end()
    return out + text_latex(text[end:])


def _script_latex(body: str) -> str:
    """Escape the words of an index or exponent, as maths: text with dollar signs of its own would need amsmath, and without it LaTeX may never end."""
    out = ""
    for piece in re.findall(r"[A-Za-z0-9]+|.", body):
        latex = text_latex(piece)
        if piece.isalnum() and piece.isascii():
            out += rf"\mathrm{{{latex}}}"
        elif latex.startswith("$"):
            out += "{}" * (latex[1] in "^_") + latex.strip("$")
        else:
            out += {" ": r"\ ", "−": "-"}.get(piece, latex if piece in "()[]/+-,.;:=!?*" else rf"\mbox{{{latex}}}")
    return out


def _latex_character(character: str) -> str:
    for table in (_LATEX_TEXT, _SUBSCRIPTS, _SUPERSCRIPTS):
        if character in table:
            return table[character]
    if _LATEX_LETTERS.match(character):
        return character
    return f"[U+{ord(character):04X}]"


def _sequence(tokens: list[str], start: int) -> tuple[Markup, int]:
    """Render tokens up to a closing brace; returns the markup and the index behind it."""
    parts: list[Markup] = []
    index = start
    while index < len(tokens) and tokens[index] != "}":
        token = tokens[index]
        if token in "_^" and len(token) == 1:
            body, index = _argument(tokens, index + 1)
            tag = "sub" if token == "_" else "sup"
            parts.append(Markup(f"<{tag}>") + body + Markup(f"</{tag}>"))
        else:
            body, index = _argument(tokens, index)
            parts.append(body)
    return Markup("").join(parts), index + 1


def _argument(tokens: list[str], index: int) -> tuple[Markup, int]:
    """Render one token, or one group in braces."""
    if index >= len(tokens):
        return Markup(""), index
    token = tokens[index]
    if token == "{":
        return _sequence(tokens, index + 1)
    if token.startswith("\\"):
        return _command(tokens, index)
    if token.isalpha():
        return Markup("<i>") + escape(token) + Markup("</i>"), index + 1
    return escape("−" if token == "-" else token), index + 1


def _command(tokens: list[str], index: int) -> tuple[Markup, int]:
    name = tokens[index][1:]
    if name in _GREEK:
        return (Markup("<i>{}</i>") if name[0].islower() else Markup("{}")).format(_GREEK[name]), index + 1
    if name in _SIGNS:
        return escape(_SIGNS[name]), index + 1
    if name in _DROPPED:
        return Markup(""), index + 1
    if name in _UPRIGHT or name == "mathbb":
        body, after = _argument(tokens, index + 1)
        plain = body.striptags()
        return escape(_BLACKBOARD.get(plain, plain) if name == "mathbb" else plain), after
    if name in {"frac", "tfrac", "dfrac"}:
        above, after = _argument(tokens, index + 1)
        below, after = _argument(tokens, after)
        return _bracketed(above) + "/" + _bracketed(below), after
    if name == "sqrt":
        body, after = _argument(tokens, index + 1)
        return Markup("√") + _bracketed(body), after
    if name in _ACCENTS:
        body, after = _argument(tokens, index + 1)
        return body[:-4] + Markup(_ACCENTS[name]) + Markup("</i>") if body.endswith("</i>") else body + Markup(_ACCENTS[name]), after
    if name in {"overline", "underline"}:
        body, after = _argument(tokens, index + 1)
        return Markup('<span style="text-decoration:{}">{}</span>').format(name, body), after
    return escape(name), index + 1


def _bracketed(body: Markup) -> Markup:
    """Put round brackets about anything longer than one letter or number."""
    return body if re.fullmatch(r"\w+", body.striptags()) else Markup("(") + body + Markup(")")
