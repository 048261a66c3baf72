"""Conversion of mathematics and foreign text: a subset of LaTeX to HTML, and any text to safe
LaTeX.

Symbols and equations travel in the datasets as LaTeX; the page shows them without an external
typesetter. Imports markupsafe (with jinja2).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from markupsafe import Markup, escape

from reports.text.printable import printable


def _pairs(table: str) -> dict[str, str]:
    """Parse `name sign name sign …` into a mapping."""
    words = table.split()
    return dict(zip(words[::2], words[1::2], strict=True))


_GREEK = _pairs("""
    alpha α beta β gamma γ delta δ epsilon ε varepsilon ε zeta ζ eta η theta θ kappa κ lambda λ
    mu μ nu ν xi ξ pi π rho ρ sigma σ tau τ upsilon υ phi φ varphi φ chi χ psi ψ omega ω Gamma Γ
    Delta Δ Theta Θ Lambda Λ Xi Ξ Pi Π Sigma Σ Phi Φ Psi Ψ Omega Ω
    """)
_SIGNS = (
    _pairs(r"""
        le ≤ leq ≤ ge ≥ geq ≥ lesssim ≲ gtrsim ≳ ll ≪ gg ≫ ne ≠ neq ≠ approx ≈ in ∈ notin ∉
        succeq ⪰ setminus ∖ cdot · times × pm ± to → infty ∞ sum ∑ prod ∏ max max min min exp exp
        log log cos cos sin sin Pr Pr det det langle ⟨ rangle ⟩ ldots … dots … cdots ⋯ partial ∂
        propto ∝ sim ∼ Leftrightarrow ⇔ Rightarrow ⇒ implies ⇒ forall ∀ cup ∪ cap ∩ emptyset ∅
        ell ℓ lvert | rvert | lVert ‖ rVert ‖ Vert ‖ | ‖ perp ⊥ top ⊤ downarrow ↓
        dagger † { { } } % % & & _ _ # # $ $
        """)
    | dict.fromkeys(("quad", "qquad", ",", ";", ":", " ", "\\"), " ")
    | {"!": ""}
)
_DROPPED = {"left", "right", "big", "Big", "bigl", "bigr", "Bigl", "Bigr"}
_DROPPED |= {"displaystyle", "textstyle", "limits", "nolimits"}
_UPRIGHT = {"mathrm", "mathcal", "text", "operatorname", "mathit", "mathbf", "mathsf", "textrm"}
_ACCENTS = {"hat": "\u0302", "tilde": "\u0303", "bar": "\u0304"}
_BLACKBOARD = {"E": "𝔼", "P": "ℙ", "R": "ℝ", "N": "ℕ", "Z": "ℤ"}
_ONE_ARGUMENT = _UPRIGHT | _ACCENTS.keys() | {"mathbb", "sqrt", "overline", "underline"}
_FRACTIONS = {"frac", "tfrac", "dfrac"}
_OF_PACKAGES = {"\\", "implies", "lvert", "rvert", "lVert", "rVert", "text", "operatorname"}
_OF_PACKAGES |= {"tfrac", "dfrac"}
"""Commands allowed in HTML but not in LaTeX: they end a row, or need amsmath."""
_TOKEN = re.compile(r"\\[A-Za-z]+|\\.|[{}_^]|[^\\{}_^]", re.DOTALL)

_COMMAND = re.compile(r"\\[A-Za-z]{2,}")
_EXPONENT = r"\^\{(?P<sup>[^{}]*)\}|\^\((?P<round>[^()]*)\)"
_SCRIPT = re.compile(
    r"(?<=[A-Za-z\u0370-\u03ff])_(?P<sub>[A-Za-z0-9]+(?:_[A-Za-z0-9]+)*)|" + _EXPONENT
)
"""An index or exponent in plain text: a_min_in, e^{-x}, e^(-x)."""
_SCRIPT_IN_PROSE = re.compile(
    r"(?<![\w$/.-])(?P<letter>[vαpr])_"
    r"(?P<sub>(?<=[vα]_)[iL]|(?<=p_)(?:sink|base)|(?<=r_)(?:min|max))(?!\w)"
    r"|(?<=[e)])(?:" + _EXPONENT + ")"
)
"""Indices and exponents in sentences: v_L, α_i, p_sink, e^(-x); names such as a_b do not match."""

_LATEX_TEXT: Final = (
    {sign: f"$_{digit}$" for digit, sign in enumerate("₀₁₂₃₄₅₆₇₈₉")}
    | {sign: f"$^{digit}$" for digit, sign in enumerate("⁰¹²³⁴⁵⁶⁷⁸⁹")}
    | _pairs(r"""
        \ \textbackslash{} & \& % \% $ \$ # \# _ \_ { \{ } \} ~ \textasciitilde{}
        ^ \textasciicircum{} < $<$ > $>$ | $|$ " '' ± $\pm$ × $\times$ · $\cdot$ − $-$ – -- — ---
        … \dots{} ≤ $\le$ ≥ $\ge$ ≠ $\ne$ ≈ $\approx$ ≪ $\ll$ ≲ $\lesssim$ ≳ $\gtrsim$ ∈ $\in$
        ∉ $\notin$ ∞ $\infty$ √ $\surd$ ∑ $\sum$ → $\to$ ⇔ $\Leftrightarrow$ ⇒ $\Rightarrow$
        ‖ $\|$ 𝔼 $\mathbb{E}$ ² $^2$ ³ $^3$ ½ $\frac12$ ° $^\circ$ ⁻ $^-$ ∖ $\setminus$
        ⟨ $\langle$ ⟩ $\rangle$ ’ ' ‘ ` “ `` ” '' § \S{} ᵀ $^\top$ ∅ $\emptyset$ ⪰ $\succeq$ › $>$
        † $^\dagger$ ↑ $\uparrow$ ↓ $\downarrow$ ↘ $\searrow$ ⇓ $\Downarrow$ ₊ $_+$ ₋ $_-$
        """)
    | {sign: rf"$\{name}$" for name, sign in _GREEK.items() if not name.startswith("var")}
    | dict.fromkeys("\u0304\u0332", "")
)
_LATEX_LETTERS: Final = re.compile(r"[\x20-\x7e\u00a1-\u017f]")


_SYMBOL: Final = re.compile(r"[A-Za-z0-9 ()\[\]+\-*/=<>.,;:!?|']")
"""A character of an expression that needs no command."""
_FLAT: Final = r"(?:_x|\^x)?(?:x(?:_x(?:\^x)?|\^x(?:_x)?)?)*"
"""Sequence of symbols x, each with at most one index and one exponent."""
_MOST_LETTERS: Final = 200
"""Longest expression that is parsed, in characters; geostat's have at most 60."""


def is_expression(latex: str) -> bool:
    r"""Return whether a text is an expression of known commands with balanced braces. Maths of a
    dataset reaches LaTeX output only through this check.

    >>> is_expression(r"\hat\alpha_{i}^2"), is_expression(r"\input{/etc/passwd}")
    (True, False)
    """
    tokens = _TOKEN.findall(latex)
    if len(latex) > _MOST_LETTERS or "".join(tokens) != latex or r"\sqrt[" in latex:
        return False  # too long, a trailing backslash, or an optional argument
    pattern = "".join(map(_kind, tokens))
    while True:
        reduced = re.sub(rf"cx|fxx|{{{_FLAT}}}", "x", pattern)
        if reduced == pattern:
            return re.fullmatch(_FLAT, pattern) is not None
        pattern = reduced


def _kind(token: str) -> str:
    """Return the kind of a token: x for a symbol, c for a command with one argument, f for one with
    two, ! for an unknown one; braces, `_` and `^` are their own kinds.
    """
    if token in "{}_^":
        return token
    name = token[1:]
    if not name:
        return "" if token == " " else "x" if _SYMBOL.match(token) else "!"
    if name in _OF_PACKAGES:
        return "!"
    if name in _GREEK or name in _SIGNS:
        return "x"
    return "c" if name in _ONE_ARGUMENT else "f" if name in _FRACTIONS else "!"


def math_html(latex: str) -> Markup:
    """Render LaTeX maths as HTML: letters in italics, subscripts, Greek, fractions on one line.
    Unknown commands show their name.
    """
    tokens = _TOKEN.findall(latex)
    return Markup('<span class="math">') + _sequence(tokens, 0)[0] + Markup("</span>")


def mixed_html(text: str) -> Markup:
    """Render geostat's text as HTML: LaTeX between dollar signs, and `a_min`, `e^{x}` in plain
    text.

    A text with LaTeX commands but no dollar signs is treated as LaTeX throughout.
    """
    return Markup("").join(_html(kind, words) for kind, words in _pieces(printable(text)))


def prose_html(text: str) -> Markup:
    """Render a sentence that may contain foreign names as HTML: `v_L` and `e^(-x)` become indices
    and exponents; everything else is escaped.
    """
    pieces = _scripts(printable(text), _SCRIPT_IN_PROSE)
    return Markup("").join(_html(kind, words) for kind, words in pieces)


def prose_latex(text: str) -> str:
    """Render a sentence as LaTeX, by the rules of `prose_html`."""
    return "".join(_latex(kind, words) for kind, words in _scripts(text, _SCRIPT_IN_PROSE))


def mixed_latex(text: str) -> str:
    """Render geostat's text as LaTeX, by the rules of `mixed_html`."""
    return "".join(_latex(kind, words) for kind, words in _pieces(text))


def text_latex(text: str) -> str:
    """Escape any text for LaTeX; characters that pdflatex lacks become [U+1234]."""
    spaced = (" " if character.isspace() else character for character in text)
    return "".join(
        _LATEX_TEXT.get(
            character, character if _LATEX_LETTERS.match(character) else f"[U+{ord(character):04X}]"
        )
        for character in spaced
    )


def _pieces(text: str) -> Iterator[tuple[str, str]]:
    """Split geostat's text into pairs of a kind (maths, plain, sub or sup) and text."""
    for kind, piece in maths_apart(text):
        if kind == "maths":
            yield kind, piece
        else:
            yield from _scripts(piece, _SCRIPT)


def maths_apart(text: str) -> Iterator[tuple[str, str]]:
    """Split a text into maths and plain text; text between dollar signs that is not an expression
    stays plain, with its dollar signs.
    """
    if "$" not in text and _COMMAND.search(text) and is_expression(text):
        yield "maths", text
        return
    for index, piece in enumerate(re.split(r"\$([^$]+)\$", text)):
        if index % 2 and is_expression(piece):
            yield "maths", piece
        else:
            yield "plain", f"${piece}$" if index % 2 else piece


def _scripts(text: str, script: re.Pattern[str]) -> Iterator[tuple[str, str]]:
    """Split plain text into plain parts, indices (sub) and exponents (sup)."""
    end = 0
    for span in script.finditer(text):
        groups = span.groupdict(default="")
        yield "plain", text[end : span.start()] + groups.get("letter", "")
        if groups["sub"]:
            yield "sub", groups["sub"].replace("_", " ")
        else:
            yield "sup", groups["sup"] or groups["round"]
        end = span.end()
    yield "plain", text[end:]


def _html(kind: str, words: str) -> Markup:
    if kind == "maths":
        return math_html(words)
    written = escape(words)
    return written if kind == "plain" else Markup(f"<{kind}>") + written + Markup(f"</{kind}>")


def _latex(kind: str, words: str) -> str:
    if kind == "maths":
        return f"${words}$"
    if kind == "plain":
        return text_latex(words)
    return f"${'_' if kind == 'sub' else '^'}{{{_script_latex(words)}}}$"


def _script_latex(body: str) -> str:
    """Escape the text of an index or exponent in maths mode. Nested dollar signs would need
    amsmath; without it LaTeX may not terminate.
    """
    out = ""
    for piece in re.findall(r"[A-Za-z0-9]+|.", body):
        latex = text_latex(piece)
        if piece.isalnum() and piece.isascii():
            out += rf"\mathrm{{{latex}}}"
        elif latex.startswith("$"):
            out += "{}" * (latex[1] in "^_") + latex.strip("$")
        else:
            out += {" ": r"\ ", "−": "-"}.get(
                piece, latex if piece in "()[]/+-,.;:=!?*" else rf"\mbox{{{latex}}}"
            )
    return out


def _sequence(tokens: list[str], start: int) -> tuple[Markup, int]:
    """Render tokens up to a closing brace; return the markup and the index after it."""
    parts: list[Markup] = []
    index = start
    while index < len(tokens) and tokens[index] != "}":
        tag = {"_": "sub", "^": "sup"}.get(tokens[index])
        body, index = _argument(tokens, index + 1 if tag else index)
        parts.append(Markup(f"<{tag}>") + body + Markup(f"</{tag}>") if tag else body)
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
    name, index = tokens[index][1:], index + 1
    if name in _GREEK:
        letter = Markup("<i>{}</i>") if name[0].islower() else Markup("{}")
        return letter.format(_GREEK[name]), index
    if name in _SIGNS:
        return escape(_SIGNS[name]), index
    if name in _DROPPED:
        return Markup(""), index
    if name in _FRACTIONS:
        above, index = _argument(tokens, index)
        below, index = _argument(tokens, index)
        return _bracketed(above) + "/" + _bracketed(below), index
    if name not in _ONE_ARGUMENT:
        return escape(name), index
    body, index = _argument(tokens, index)
    if name in _UPRIGHT:
        return escape(body.striptags()), index
    if name == "mathbb":
        return escape(_BLACKBOARD.get(body.striptags(), body.striptags())), index
    if name == "sqrt":
        return Markup("√") + _bracketed(body), index
    if name in _ACCENTS:
        end = Markup("</i>") if body.endswith("</i>") else Markup("")
        return body.removesuffix(end) + Markup(_ACCENTS[name]) + end, index
    return Markup('<span style="text-decoration:{}">{}</span>').format(name, body), index


def _bracketed(body: Markup) -> Markup:
    """Put round brackets around anything longer than one word or number."""
    return body if re.fullmatch(r"\w+", body.striptags()) else Markup("(") + body + Markup(")")
