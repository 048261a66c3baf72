"""Forms of similarity and of weights: what each is called in figures, in captions and in legends.

Source: arXiv 2602.01893, Assumptions 2 and 3 (printed); the others are rivals.
"""

from __future__ import annotations

from typing import Final

SIMILARITY: Final = {
    "exponential": "exponential, printed",
    "offset": "exponential with an offset",
    "constant": "constant",
    "power": "power",
    "stretched": "stretched exponential",
    "offset_power": "power with an offset",
}
"""Forms of the cosine by distance; the offset is the constant that it decays to."""
WEIGHTS: Final = {
    "constant": "no change",
    "no_plateau": "growth alone",
    "power_law": "power of the distance",
    "monotone": "plateau, growth",
    "shared": "four phases, printed",
    "separate": "four phases, two sizes",
}
"""Forms of the log weight by position."""
