"""Width of LaTeX text: an estimate from the widths of Computer Modern's letters, rather too wide
than too narrow.

Source: cmr10.tfm, cmmi10.tfm, cmsy10.tfm, in thousandths of an em. Imports the standard library
only.
"""

from __future__ import annotations

import re
from typing import Final

EM: Final = 8.75
"""Points of an em of \\footnotesize in a class of 10 points: 8, with letters 6% wider, and 3%."""

EM_OF_FIGURES: Final = 8.5
"""The same for figures and brackets alone, whose widths are exact."""

_LOWER: Final = (
    "a500 b556 c444 d556 e444 f306 g500 h556 i278 j306 k528 l278 m833 n556 o500 p556 q528 r392"
    " s394 t389 u556 v528 w722 x528 y528 z444"
)
_UPPER: Final = (
    "A750 B708 C722 D764 E681 F653 G785 H750 I361 J514 K778 L625 M917 N750 O778 P681 Q778 R736"
    " S556 T722 U750 V750 W1028 X750 Y750 Z611"
)
_LETTERS: Final = (
    {word[0]: int(word[1:]) for word in f"{_LOWER} {_UPPER}".split()}
    | dict.fromkeys('0123456789/*?_$"', 500)
    | dict.fromkeys(".,;:!'`[]|", 278)
    | dict.fromkeys("()", 389)
    | dict.fromkeys(" ~-", 333)
    | dict.fromkeys("%#&", 833)
)
_UNKNOWN: Final = 800
_OPERATOR: Final = 778 + 444
_RELATION: Final = 778 + 556
_SPACED: Final = {"pm", "times", "cdot", "setminus"}
_RELATIONS: Final = {
    *("le", "ge", "ne", "approx", "sim", "ll", "gg", "lesssim", "gtrsim", "in", "notin", "to"),
    *(
        "propto",
        "succeq",
        "uparrow",
        "downarrow",
        "searrow",
        "Downarrow",
        "Rightarrow",
        "Leftrightarrow",
    ),
}
_NOTHING: Final = {
    *("mathrm", "mbox", "mathbb", "mathcal", "mathit", "mathbf", "text", "operatorname"),
    *("left", "right", "bar", "hat", "tilde", "displaystyle", "frac", "tfrac", "allowbreak"),
}
_WORDS: Final = {"log", "max", "min", "exp", "cos", "sin", "Pr", "det"}
_SCRIPT: Final = 0.86
"""Width of a letter of an index, of \\footnotesize, over that of a letter."""
_OPENING: Final = ("$", "{", "(", "[")
_TOKEN: Final = re.compile(r"\\[A-Za-z]+ ?|\\.|\$|.", re.DOTALL)


def width(latex: str) -> float:
    r"""How wide a line of LaTeX is, in points at \footnotesize.

    >>> round(width(r"$0.67 \pm 0.05$")), round(width("lag"))
    (42, 11)
    """
    total, maths, scripts, script_next, before = 0.0, False, [False], False, ""
    for token in _TOKEN.findall(latex):
        if token == "$":
            maths = not maths
        elif token == "{":
            scripts.append(scripts[-1] or script_next)
            script_next = False
        elif token == "}":
            scripts = scripts[:-1] or [False]
        elif maths and token in "^_":
            script_next = True
        else:
            small = scripts[-1] or script_next
            lone = small or before in _OPENING
            total += _width(token, maths, lone) * (_SCRIPT if small else 1)
            script_next = False
        before = token if token.strip() else before
    return total * EM / 1000


def _width(token: str, maths: bool, lone: bool) -> float:
    """One token, in thousandths of an em; signs within indices, and those that open a formula, have
    no space beside them.
    """
    name = token[1:].rstrip()
    if token.startswith("\\") and name.isalpha():
        if name in _NOTHING:
            return 0
        if name in _WORDS:
            return sum(_LETTERS[letter] for letter in name)
        if name in _SPACED or name in _RELATIONS:
            spaced = _OPERATOR if name in _SPACED else _RELATION
            return _UNKNOWN if lone else spaced
        return _UNKNOWN
    if token.startswith("\\"):
        return _LETTERS.get(name, 200) if name else 333
    if maths and token in "+-=<>":
        return _UNKNOWN if lone else _OPERATOR if token in "+-" else _RELATION
    if maths and not token.strip():
        return 0
    return _LETTERS.get(token, _UNKNOWN)
