"""Check of the numbers in README.md against a run, with the source cell of each.

`python -m docs.scripts.readme_numbers report` prints them, and exits with 1 if a number differs.
"""

import json
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import xarray as xr

import geostat as gs
from geostat.datasets.separability import RANGES
from geostat.statistics.equivalence import HOLDS
from geostat.statistics.jackknife import SIGNIFICANCE
from geostat.statistics.multiple_testing import FALSE_DISCOVERIES, adjusted
from geostat.topics.records import ANSWER_CODES
from geostat.topics.sink import sink_correlates
from geostat.topics.weights import phases_shown

README: Final = Path(__file__).parents[2] / "README.md"
SECTIONS: Final = re.compile(
    r"\*\*Result for .*?: (.*?)\n\n.*?## What it found\n(.*?)\n\[All findings", re.DOTALL
)
NUMBER: Final = re.compile(r"\d[\d,]*(?:\.\d+)?(?: ± \d+\.\d+)?%?")


@dataclass(frozen=True)
class Quoted:
    """A quoted number: the surrounding words in README with `{}` in its place, the table and cell
    of the report, and the function that reads it from a run.
    """

    words: str
    table: str
    cell: str
    value: Callable[[xr.DataTree], str]


def _at(tree: xr.DataTree, group: str, name: str, **cell: object) -> float:
    return float(tree[group].to_dataset()[name].sel(cell))


def _with_error(value: float, error: float) -> str:
    return f"{value:.3f} ± {error:.3f}"


def _precision(tree: xr.DataTree) -> str:
    value, error = (_at(tree, "summary", f"precision_{part}", n=2) for part in ("mean", "se"))
    return _with_error(value, error)


def _null(null: str) -> Callable[[xr.DataTree], str]:
    return lambda tree: f"{_at(tree, 'summary', 'precision_null', null=null, n=2):.2f}"


def _gain(null: str, statistic: str = "precision", n: int = 8) -> Callable[[xr.DataTree], str]:
    parts = (f"{statistic}_gain", f"{statistic}_gain_se")
    return lambda tree: _with_error(*(_at(tree, "separable", p, null=null, n=n) for p in parts))


def _loss(null: str) -> Callable[[xr.DataTree], str]:
    return lambda tree: _gain(null)(tree).removeprefix("-")


def _lowest(tree: xr.DataTree) -> str:
    mean = tree["summary"].to_dataset()["precision_mean"]
    inner = mean.where((mean["n"] > 1) & (mean["n"] < tree["capture"].sizes["position"]))
    return str(int(mean["n"][int(np.nanargmin(inner.values))]))


def _heads(claim: str, answer: str) -> Callable[[xr.DataTree], str]:
    return lambda tree: str(int(gs.claims(tree).loc[claim, answer]))


def _adjusted(tree: xr.DataTree) -> str:
    return str(int(tree["verdicts"].to_dataset()["holds_adjusted"].sel(claim=SHAPE)))


def _median(group: str, name: str, form: str, **cell: str) -> Callable[[xr.DataTree], str]:
    def value(tree: xr.DataTree) -> str:
        return format(float(tree[group].to_dataset()[name].sel(cell).median()), form)

    return value


def _shown(bit: int) -> Callable[[xr.DataTree], str]:
    """Return the function for the number of heads whose cosines are shown to depend on the rank (1)
    or the lag (2).
    """

    def value(tree: xr.DataTree) -> str:
        shown = tree["amended"].to_dataset()["depends_on"].values
        return str(int(((shown > 0) & (shown & bit > 0)).sum()))

    return value


def _discovered(effect: str) -> Callable[[xr.DataTree], str]:
    """Return the function for the number of heads in which an effect adds to the other at a
    false-discovery rate of 5%.
    """

    def value(tree: xr.DataTree) -> str:
        p = tree["amended"].to_dataset()[f"{effect}_added_p"].values.ravel()
        return str(int((adjusted(p, "fdr_bh") <= FALSE_DISCOVERIES).sum()))

    return value


def _share(value: float) -> str:
    """Return a share in percent; none below 1 is rounded to 100%: README says “over 99%”."""
    return f"{min(value, 0.99) if value < 1 else value:.0%}"


def _inside(
    measure: str, size_range: str, gram: str = "exponential", statistic: str = "recall"
) -> Callable[[xr.DataTree], str]:
    cell = {"edition": "sharp", "gram": gram, "size_range": size_range, "measure": measure}
    return lambda tree: _share(_at(tree, "summary", f"{statistic}_by_range", **cell))


def _at_size(measure: str, n: int) -> Callable[[xr.DataTree], str]:
    cell = {"edition": "sharp", "gram": "exponential", "n_envelope": n, "measure": measure}
    return lambda tree: f"{_at(tree, 'summary', 'recall_by_n', **cell):.0%}"


def _detected(null: str, side: str) -> Callable[[xr.DataTree], str]:
    """Return the function for the number of heads whose Precision at N = 8 is above a null baseline
    or below it, at a false-discovery rate of 5%.
    """
    return lambda tree: str(int(_at(tree, "separable", f"precision_{side}", null=null, n=8)))


def _correlation(place: int) -> Callable[[xr.DataTree], str]:
    """Return the function for a number of the scoreboard's uncorrected correlations of Recall, with
    measured values, permuted ones and a random sink: the estimate and limits of the first and last,
    the estimate of the second.
    """

    def value(tree: xr.DataTree) -> str:
        uncorrected = sink_correlates(tree).here.partition("uncorrected")[2]
        found = re.findall(r"\d\.\d+", uncorrected)
        return [*found[:4], *found[6:9]][place]

    return value


def _gap(end: str) -> Callable[[xr.DataTree], str]:
    """Return the function for the share of Recall expected inside minus that inside, at N = 4."""
    cell = {"edition": "sharp", "gram": "exponential", "n_envelope": 4, "measure": "drawn_gap"}
    name = f"recall_by_n{end}"
    return lambda tree: f"{abs(100 * _at(tree, 'summary', name, **cell)):.0f}"


def _score(end: str) -> Callable[[xr.DataTree], str]:
    """Return the function for the interval score of Recall at N ≤ 4, minus that expected."""
    cell = {"edition": "sharp", "gram": "exponential", "size_range": "N ≤ 4"}
    name = f"recall_by_range{end}"
    return lambda tree: f"{_at(tree, 'summary', name, measure='score_gap', **cell):.2f}"


def _beats_constant(tree: xr.DataTree) -> str:
    p = tree["similarity"].to_dataset()["gain_over_constant_p"].sel(gram="offset")
    return str(int((p <= SIGNIFICANCE).sum()))


def _untrained_heads(tree: xr.DataTree) -> str:
    control = tree["control"].to_dataset().sel(claim=SHAPE)
    return str(sum(int(control[answer]) for answer in ANSWER_CODES))


def _untrained_documents(tree: xr.DataTree) -> str:
    return str(tree["control"].attrs["documents"])


def _untrained_precision(tree: xr.DataTree) -> str:
    """Return mean Precision at N = 2 with its error, as the scoreboard quotes it."""
    rows = json.loads(tree["control"].attrs["scoreboard"])
    here = next(row["here"] for row in rows if row["key"] == "lowest_between")
    return here.removeprefix("Precision ").partition(" at N = 2")[0]


def _untrained_inside(measure: str, later: int) -> Callable[[xr.DataTree], str]:
    """Return the function for a share of the untrained model's Recall inside sharp bounds, in the
    first range of N or a later one.
    """

    def value(tree: xr.DataTree) -> str:
        results = map(json.loads, tree["control"].attrs["key_results"])
        bounds = next(result for result in results if result["key"] == "bounds")
        return f"{[bounds['number'], *bounds['also']][later][measure]:.0%}"

    return value


def _all_phases(tree: xr.DataTree) -> str:
    near = tree["verdicts"]["answer_head"].sel(claim_head=SHAPE) == HOLDS
    shown = phases_shown(tree["weights"].to_dataset()).all("phase")
    return str(int((shown & near).sum()))


def _size(*names: str) -> Callable[[xr.DataTree], str]:
    return lambda tree: f"{np.prod([tree['capture'].sizes[name] for name in names]):,}"


_, MIDDLE, LARGE = RANGES
SHAPE: Final = "weights.shape_position"
QUOTED: Final = (
    Quoted("{} of Recall values at", "coverage", "N = 4", _at_size("inside", 4)),
    Quoted("tokens ({} expected; diff", "coverage", "N = 4", _at_size("drawn_inside", 4)),
    *(
        Quoted(words, "coverage", "N = 4, expected − inside", _gap(end))
        for words, end in (
            ("4 to {}), 3", "_upper"),
            ("points, −{} to", "_lower"),
            ("difference {} points", ""),
        )
    ),
    Quoted("), {} at N > 64", "coverage_by_range", "N > 64", _inside("inside", LARGE)),
    Quoted("at N > 64 ({} exp", "coverage_by_range", "N > 64", _inside("drawn_inside", LARGE)),
    Quoted("{} documents of", "the page", "header", _size("document")),
    Quoted("documents of {} tokens", "the page", "header", _size("position")),
    Quoted("{} heads, which", "separability", "caption", _size("layer", "head")),
    Quoted("share {} KV heads.", "norms", "column heads", _size("layer", "kv_head")),
    Quoted("Precision is {} at N = 2", "separability", "P measured, N = 2", _precision),
    Quoted("lowest near N = {}.", "scoreboard", "separability is highest …", _lowest),
    Quoted("selection has {}, value", "separability", "N = 2", _null("random_selection")),
    Quoted("random direction have {}, and", "separability", "N = 2", _null("random_directions")),
    Quoted("{} heads with initial", "scoreboard", "untrained model", _untrained_heads),
    Quoted("in {} of the documents", "the page", "provenance", _untrained_documents),
    Quoted("of the documents, {}.", "scoreboard", "untrained model", _untrained_precision),
    Quoted("At N = 8 Precision is {}", "separable", "N = 8", _gain("permuted_values")),
    Quoted("detectably in {} heads.", "separable", "N = 8", _detected("permuted_values", "more")),
    Quoted("head ({} heads above", "separable", "N = 8", _detected("other_head", "more")),
    Quoted("above, {} below). Ag", "separable", "N = 8", _detected("other_head", "less")),
    Quoted("it is {} lower on", "separable", "N = 8", _loss("permuted_sink")),
    Quoted("N = 8 ({} heads above", "separable", "N = 8", _detected("permuted_sink", "more")),
    Quoted("above, {} below). Over", "separable", "N = 8", _detected("permuted_sink", "less")),
    *(
        Quoted(words, "scoreboard", "Recall and the sink's similarity", _correlation(place))
        for place, words in (
            (6, "0.35 to {})."),
            (5, "14, −{} to"),
            (4, "detectably (−{}, −"),
            (3, "less ({})."),
            (2, " to {} over documents"),
            (1, "0.61, {} to"),
            (0, "cosine (r = {},"),
        )
    ),
    Quoted("variation is {};", "norms", "CV_token, median", _median("norms", "cv_token", ".0%")),
    Quoted("in {} of 90", "verdicts", "norms.cv, fails", _heads("norms.cv", "fails")),
    Quoted("of {} KV heads. The", "norms", "column heads", _size("layer", "kv_head")),
    Quoted("small in {}.", "verdicts", "norms.sink, holds", _heads("norms.sink", "holds")),
    Quoted(
        "cosine by {}, a constant by",
        "similarity",
        "exponential form: MAE_lag, median",
        _median("similarity", "mae_by_lag", ".3f", gram="exponential"),
    ),
    Quoted(
        "a constant by {}; decay",
        "similarity",
        "constant: MAE_lag, median",
        _median("similarity", "mae_by_lag", ".4f", gram="constant"),
    ),
    Quoted("a constant in {} KV heads.", "verdicts", "decay to a constant, holds", _beats_constant),
    Quoted("cosines in {} of all", "cosine_forms", "levels of rank, both better", _shown(2)),
    Quoted("of all 270 heads ({} at a", "amended", "lag_added_p", _discovered("lag")),
    Quoted("of all {} heads", "heads", "rows", _size("layer", "head")),
    Quoted("in 112 ({}). - **Weights", "amended", "rank_added_p", _discovered("rank")),
    Quoted("adds to the lag in {} (", "cosine_forms", "levels of lag, both better", _shown(1)),
    Quoted("factor of 2 in {} of", "verdicts", "four phases, holds", _heads(SHAPE, "holds")),
    Quoted("of 270 heads ({} at a", "verdicts", "holds_adjusted", _adjusted),
    Quoted("beyond it in {}.", "verdicts", "four phases, fails", _heads(SHAPE, "fails")),
    Quoted("of {} heads (", "weights", "column heads", _size("layer", "head")),
    Quoted(
        "In {} the phases", "verdicts", "four phases, trivially", _heads(SHAPE, "holds_trivially")
    ),
    Quoted("flat line, {} are undet", "verdicts", "four phases", _heads(SHAPE, "undetermined")),
    Quoted("51, {} show all four", "sentences", "four phases", _all_phases),
    Quoted("Of the {}, ", "verdicts", "four phases, holds", _heads(SHAPE, "holds")),
    Quoted("contain {} of the values", "coverage", "N = 2", _at_size("inside", 2)),
    Quoted("at N = 2 ({} expected)", "coverage", "N = 2", _at_size("drawn_inside", 2)),
    Quoted("expected) and {} at N = 4", "coverage", "N = 4", _at_size("inside", 4)),
    Quoted("at N = 4 ({} expected), neither", "coverage", "N = 4", _at_size("drawn_inside", 4)),
    *(
        Quoted(words, "coverage_by_range", "N ≤ 4, score − expected", _score(end))
        for words, end in (
            ("0.21 to {}, above", "_upper"),
            ("0.42, {} to", "_lower"),
            ("N ≤ 4: {},", ""),
        )
    ),
    *(
        Quoted(words, "coverage_by_range", size_range, _inside(measure, size_range))
        for words, size_range, measure in (
            ("contain {} at 5 to 64", MIDDLE, "inside"),
            ("5 to 64 ({} expected)", MIDDLE, "drawn_inside"),
            ("expected), {} above", LARGE, "inside"),
            ("above ({} expected)", LARGE, "drawn_inside"),
        )
    ),
    *(
        Quoted(words, "coverage_by_range", LARGE, _inside(measure, LARGE, "offset"))
        for words, measure in (
            ("to a constant it is {} above", "inside"),
            ("above (over {} expected), of", "drawn_inside"),
        )
    ),
    *(
        Quoted(words, "coverage_by_range", LARGE, _inside(measure, LARGE, "offset", "precision"))
        for words, measure in (
            ("of Precision 86% ({} expected", "drawn_inside"),
            ("of Precision {} (", "inside"),
        )
    ),
    *(
        Quoted(words, "coverage_by_range", MIDDLE, _inside(measure, MIDDLE, gram, "precision"))
        for words, measure, gram in (
            ("Precision {} (89% expected, det", "inside", "rank"),
            ("({} expected, detectably", "drawn_inside", "rank"),
            ("Precision is {} inside at", "inside", "exponential"),
            ("5 to 64 ({} expected), 94", "drawn_inside", "exponential"),
        )
    ),
    *(
        Quoted(words, "coverage_by_range", LARGE, _inside(measure, LARGE, statistic="precision"))
        for words, measure in (
            ("expected), {} above (99", "inside"),
            ("above ({} expected). With cosines", "drawn_inside"),
        )
    ),
    *(
        Quoted(words, "coverage_by_range", MIDDLE, _inside(measure, MIDDLE, "rank"))
        for words, measure in (
            ("Recall is {} inside", "inside"),
            ("to 64 ({} expected), Prec", "drawn_inside"),
        )
    ),
    *(
        Quoted(words, "the page", "card of bounds, untrained", _untrained_inside(measure, later))
        for words, measure, later in (
            ("Recall {} lies inside", "value", 0),
            ("N ≤ 4 ({} expected)", "expected", 0),
            ("expected), {} at N = 5 to 64", "value", 1),
            ("N = 5 to 64 ({} expected)", "expected", 1),
        )
    ),
)
"""Every number from a run, in the order of README."""

STATED: Final = (
    "N = 16, 124 and 995",
    "N = 2",
    "N = 3",
    "N ≤ 4",
    "N = 4",
    "N = 8",
    "N > 64",
    "5 to 64",
    "95%",
    "5%",
    "factor of 2",
    "; 1 means",
    "decay to 0",
    "exponentially to 0",
    "4-bit",
)
"""Words with numbers that are not results: a size, a tolerance, a definition."""


def section(text: str) -> str:
    """Return the result and the findings section of README as one line."""
    match = SECTIONS.search(text)
    return " ".join(" ".join(match.groups()).split()) if match else ""


def quoted(number: Quoted, text: str) -> str:
    """Return the number that the text has between these words.

    Raises:
        ValueError: if the text lacks the words.
    """
    before, _, after = number.words.partition("{}")
    match = re.search(re.escape(before) + f"({NUMBER.pattern})" + re.escape(after), text)
    if match is None:
        raise ValueError(f"README.md does not say “{number.words}”")
    return match.group(1)


def compared(tree: xr.DataTree, text: str) -> list[tuple[Quoted, str, str]]:
    """Return each number as quoted and as in the run."""
    return [(number, quoted(number, text), number.value(tree)) for number in QUOTED]


def unexplained(text: str) -> list[str]:
    """Return the numbers of the section that are neither in `QUOTED` nor in `STATED`."""
    for number in QUOTED:
        text = text.replace(number.words.format(quoted(number, text)), number.words.format(""), 1)
    for words in STATED:
        text = text.replace(words, "")
    return NUMBER.findall(text)


def main(run: str) -> int:
    """Print one row per number; return how many differ."""
    rows = compared(gs.open(run), section(README.read_text(encoding="utf-8")))
    print("README          run             table, cell")
    for number, quotation, value in rows:
        mark = "" if quotation == value else "   DIFFERS"
        print(f"{quotation:<15} {value:<15} {number.table}, {number.cell}{mark}")
    return sum(quotation != value for _, quotation, value in rows)


if __name__ == "__main__":
    sys.exit(min(1, main(sys.argv[1])))
