"""Verdicts: claims tested over all heads, by layer and by head; scoreboard, errata and corrected
tables of the paper.

Source: arXiv 2602.01893, Assumptions 1-3, Theorems 1-2, Tables 1 and 2.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any, Final

import numpy as np
import xarray as xr
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.patches import Patch

from reports.figures import style
from reports.figures.plan import Caption, planned
from reports.figures.shapes import label_cells
from reports.run import Run, claims_of, codes_of, column, with_limits, words_of
from reports.tables.table import (
    Cell,
    Column,
    Table,
    header,
    missing,
    mixed,
    number,
    p_value,
    percentage,
    share,
    symbol,
    text,
    whole,
    wholes,
)
from reports.text.number import MISSING, count, percent, rounded

Claims = Sequence[Mapping[str, Any]]

HEIGHT, WIDTH = 0.84, 0.9
"""Size of a box within a cell of height and width 1."""
HEADS = {"kv_head": "KV head", "head": "head"}
COLOURS: Final = {
    style.VERMILLION: "fails (from above)",
    style.PALE: "neither",
    style.SKY: "holds trivially",
    style.GREEN: "holds (from below)",
}
"""Colours of answers in a cell, from above, with their labels."""


def short_name(claim: Mapping[str, Any]) -> str:
    """Return the short name of a claim, or its key if it has none."""
    return str(claim.get("short") or claim["key"])


def figure_claims(axes: Axes, run: Run) -> Axes:
    """Draw a cell for each claim and layer: share of heads in which it holds (from below), holds
    trivially (above those), fails (from above), or neither (grey).
    """
    data = run.needed("verdicts")
    claims, codes, layers = claims_of(data), codes_of(data), data["layer"].values
    boxes: dict[str, list[np.ndarray]] = {colour: [] for colour in COLOURS}
    for row, claim in enumerate(claims):
        answers = column(data, claim)
        shares = (
            HEIGHT * (answers == codes.get(answer)).mean(axis=1)
            for answer in ("fails", "holds trivially", "holds")
        )
        low, high = row + (1 - HEIGHT) / 2, row + (1 + HEIGHT) / 2  # the axis points down
        for index, (fail, trivial, hold) in enumerate(zip(*shares, strict=True)):
            edges = (low, low + fail, high - hold - trivial, high - hold, high)
            for colour, ends in zip(COLOURS, pairwise(edges), strict=True):
                boxes[colour].append(_box(index, *ends))
    for colour, drawn in boxes.items():
        known = [box for box in drawn if np.ptp(box[:, 1]) > 1e-9]
        axes.add_collection(PolyCollection(known, facecolor=colour, edgecolor="none"))
    topics = [claim["key"].partition(".")[0] for claim in claims]
    for row in range(1, len(claims)):
        if topics[row] != topics[row - 1]:
            axes.axhline(row, color=style.GREY, linewidth=0.8)
    label_cells(axes.xaxis, layers, 5 if style.narrow(axes) else 16)
    axes.set_yticks(np.arange(len(claims)) + 0.5, list(map(short_name, claims)))
    axes.set(xlim=(0, layers.size), ylim=(len(claims), 0), xlabel="layer")
    axes.tick_params(length=0)
    axes.grid(visible=False)
    handles = [Patch(color=colour, label=label) for colour, label in COLOURS.items()]
    rows = 1 + style.narrow(axes)
    axes.set_title("\n".join(" " * rows))  # reserves space for the legend above the axes
    place: style.Kwargs = {"loc": "lower right", "bbox_to_anchor": (1, 1), "borderaxespad": 0.3}
    legend = axes.legend(handles=handles, ncols=len(handles) // rows, borderpad=0.1, **place)
    legend.set_in_layout(False)
    return axes


def _box(index: int, low: float, high: float) -> np.ndarray:
    """Return the corners of a box within a cell."""
    left, right = index + (1 - WIDTH) / 2, index + (1 + WIDTH) / 2
    return np.array([(left, low), (right, low), (right, high), (left, high)])


@planned(
    figure_claims,
    "Which claims hold, in which layers?",
    lambda run: 1.0 + 0.24 * run.verdicts.sizes["claim"],
    grid=(1, 1),
    group="verdicts",
)
def caption_claims(run: Run) -> Caption:
    """Return the caption of the claims by layer."""
    data = run.needed("verdicts")
    description = (
        "Each cell is one claim in one layer. Green, from below: share of heads in which the claim"
        " holds; blue: share in which it holds trivially, because a flat form predicts as well;"
        " orange, from above: share in which it fails (KV heads for claims on norms and"
        f" similarity). {run.counted('head')}, {run.counted('KV head')}, {run.counted('document')}."
        " A claim holds in a head if the 95% interval of the estimate lies within the tolerance,"
        " and fails if it lies outside; grey is undetermined or without an estimate. A claim on"
        " bounds holds only if every bound on Precision and Recall holds at every N, and fails if"
        " one bound fails. Few documents therefore often leave it undetermined, even if most values"
        " lie inside."
    )
    fail, hold, trivial, neither = [], [], [], []
    for claim in claims_of(data):
        selected, name = data.sel(claim=claim["key"]), short_name(claim)
        held, failed = int(selected["holds"]), int(selected["fails"])
        trivially = int(selected.get("holds_trivially", 0))
        heads = run.kv_heads if claim["of"] == "kv_head" else run.heads
        fail += [name] * (2 * failed > heads)
        hold += [name] * (2 * held > heads)
        trivial += [name] * (2 * (held + trivially) > heads >= 2 * held)
        neither += [name] * (not held + trivially + failed)
    finding = " ".join(
        f"{words}: {'; '.join(names)}."
        for words, names in (
            ("Fail in most heads", fail),
            ("Hold in most heads", hold),
            ("Hold in most heads, counting trivial ones", trivial),
            ("Undetermined in every head", neither),
        )
        if names
    )
    return Caption(description, finding or "No claim holds, and none fails, in most heads.")


SUMMED_UP: Final = {
    "norms.cv": "Constant value norms",
    "similarity.exponential": "Exponential decay of similarity",
    "weights.shape_position": "Four phases of the weights",
}
"""Main claim of each assumption, with its short description."""


def where_in_words(run: Run, key: str) -> str:
    """Return a sentence: the layers in which a claim fails, or holds, in most heads; empty without
    verdicts on the claim.
    """
    claim = next((claim for claim in claims_of(run.verdicts) if claim["key"] == key), None)
    if claim is None or run.verdicts is None:
        return ""
    codes, heads = codes_of(run.verdicts), f"{HEADS[claim['of']]}s"
    answers, layers = column(run.verdicts, claim), run.verdicts["layer"].values
    parts = []
    for answer in ("fails", "holds trivially", "holds"):
        most = 2 * (answers == codes.get(answer)).sum(axis=1) > answers.shape[1]
        if most.all():
            return f"{answer.capitalize()} in most {heads} of every layer."
        if most.any():
            parts.append(
                f"{answer.capitalize()} in most {heads} of {int(most.sum())} of {most.size} layers:"
                f" {spans(layers[most].tolist())}"
            )
    if not parts:
        return f"Neither holds nor fails in most {heads} of any layer."
    return f"{'. '.join(parts)}."


def lines_of_claims(run: Run) -> list[tuple[str, str]]:
    """Return each assumption with the layers in which it fails or holds."""
    lines = [(words, where_in_words(run, key)) for key, words in SUMMED_UP.items()]
    return [(words, where) for words, where in lines if where]


def spans(numbers: Sequence[int]) -> str:
    """Return ascending integers as ranges.

    >>> spans([0, 1, 2, 5, 7, 8])
    '0 to 2, 5, 7, 8'
    """
    breaks = np.flatnonzero(np.diff(numbers) != 1) + 1
    parts: list[str] = []
    for group in np.split(np.asarray(numbers, dtype=int), breaks):
        parts += (
            [f"{group[0]} to {group[-1]}"] if group.size > 2 else [str(number) for number in group]
        )
    return ", ".join(parts)


def _scoreboard(run: Run) -> list[Table]:
    """Return the table of the paper's statements; none if the run has no scoreboard."""
    rows = json.loads(str(run.summary.attrs.get("scoreboard") or "[]"))
    if not rows:
        return []
    answers = [row["answer"] for row in rows]
    counts = ", ".join(f"{answers.count(answer)} {answer}" for answer in sorted(set(answers)))
    untrained = (
        " Untrained model: the same architecture with few layers and initial weights, on the first"
        " documents."
    ) * any(row.get("untrained") for row in rows)
    caption = (
        f"Testable claims of arXiv 2602.01893, on {run.counted('document')} and one model:"
        f" {counts}. A fixed rule, the same for every run, gives each answer. “Confirmed”"
        " (“contradicted”), for a claim on heads: in most of those that the rule counts. “Holds"
        " trivially”: not shown better than a flat form or a null. “Not testable here”: the run"
        " or the paper lacks what a test needs, or heads with random weights pass it. “Mixed”: the"
        " claim holds in some heads and fails in others; neither is a majority, both together are."
        f" “Undetermined” is not evidence against a claim.{untrained} Other texts and models may"
        " give other answers."
    )
    cells = [
        [
            *(mixed(row[key]) for key in ("claim", "here", "answer", "paper", "why")),
            *(mixed(row.get(key, "")) for key in ("null", "untrained")),
            *(text(row[key]) for key in ("rule", "where")),
        ]
        for row in rows
    ]
    headers = header(
        *("claim", "here", "answer", "paper", "remark"),
        *("null", "untrained model", "rule", "where"),
    )
    name, title = "scoreboard", "Claims of the paper"
    narrow = Table(name, title, caption, headers[:4], [row[:4] for row in cells], "pplp")
    return [Table(name, title, caption, headers, cells, "ppppppppp", narrow=narrow)]


def _verdicts(run: Run) -> list[Table]:
    """Return the tables of verdicts overall, by layer and by head; none without verdicts."""
    if run.verdicts is None:
        return []
    data, claims = run.verdicts, claims_of(run.verdicts)
    return [_overall(run, data), _by_layer(data, claims), _by_head(run, data, claims)]


def _by_claim(data: xr.Dataset) -> list[xr.Dataset]:
    """Return the verdicts of each claim, with the claim as attributes."""
    none = codes_of(data)["no estimate"]
    return [
        data.sel(claim=claim["key"])
        .assign(without=int((column(data, claim) == none).sum()))
        .assign_attrs(claim)
        for claim in claims_of(data)
    ]


def _linked(row: xr.Dataset) -> Cell:
    """Return the cell of a claim, with a link to its verdicts by head."""
    cell, claim = mixed(row.attrs["says"]), text(row.attrs["key"]).plain
    link = Markup('<a href="#table-{}" data-show="{}">{}</a>')
    return replace(cell, html=link.format(DETAILS, claim, cell.html))


def _overall(run: Run, data: xr.Dataset) -> Table:
    """Return the table with one row per claim: counts of heads by answer, and estimated share."""
    columns = (
        Column("claim", _linked, "p"),
        Column("tolerance; its source", _tolerance, "p"),
        Column("holds", partial(_count, name="holds")),
        Column("trivially", _trivially),
        Column("fails", partial(_count, name="fails")),
        wholes("undetermined", "undetermined"),
        Column("true of", _true_of),
        Column("estimate within", lambda row: percentage(float(row.get("within", np.nan)))),
    )
    caption = (
        "Holds: the 95% interval of a head’s effect lies within the tolerance; fails: outside;"
        f" undetermined: neither, given {run.counted('document')}. Trivially: the interval lies"
        " within the tolerance, but on held-out documents the form does not predict better than a"
        " constant (one-sided paired t-test at 95%); such heads do not count as holding; n/a for"
        " claims without such a test. Standard errors and skewness"
        " over documents are moderated over the heads of a claim. Heads are tested one by one: of"
        " heads exactly at the tolerance, 2.5% hold and 2.5% fail by chance. In brackets: answers"
        f" that remain at a false-discovery rate of {_rate(data)} per claim (Benjamini–Hochberg)."
        " No estimate: the feature was not found in the head, or could not be fitted; such heads"
        " neither hold nor fail. True of: estimated share of heads whose effect lies within the"
        " tolerance (a mixture over heads, which accounts for estimation noise), with its 95%"
        " interval over"
        " documents; n/a for bounds. Estimate within: share of heads whose point estimate lies"
        " within the tolerance. A claim on bounds holds if every bound on Precision and Recall"
        " holds at every N, and fails if one fails (t-test of the gap between curve and bound, and"
        " a test for unsampled texts). The bounds hold for expectations, so a single head may lie"
        " outside."
        if run.documents > 1
        else "One document gives no standard errors, so all heads are undetermined."
    )
    narrow = _on_paper(run, data)
    return Table.of("verdicts", "Verdicts", caption, columns, _by_claim(data), narrow=narrow)


def _tolerance(row: xr.Dataset) -> Cell:
    return mixed(f"{tolerance(row.attrs)}; {row.attrs['source']}")


def _count(selected: xr.Dataset, name: str) -> Cell:
    """Return the number of heads with an answer, and in brackets after Benjamini–Hochberg."""
    heads = float(selected[name])
    adjusted = f"{name}_adjusted"
    if adjusted not in selected:
        return whole(heads)
    return share(heads, f"{heads:,.0f} ({float(selected[adjusted]):,.0f})")


def _trivially(row: xr.Dataset) -> Cell:
    """Return the number of heads in which a claim holds trivially; n/a if it names no flat form."""
    return whole(float(row["holds_trivially"])) if "flat" in row.attrs else missing()


def _true_of(row: xr.Dataset) -> Cell:
    """Return the estimated share of heads for which a claim is true, with its interval, and the
    number of heads.
    """
    without = int(row["without"])
    heads = count(int(row["tested"]), HEADS[row.attrs["of"]])
    heads += f"; {without:,} more without an estimate" if without else ""
    value, low, high = with_limits(row, "true_share")
    if not np.isfinite(value):
        return text(f"{MISSING}; {heads}")
    limits = f" ({percent(low, 0)} to {percent(high, 0)})" if np.isfinite(low) else ""
    return share(value, f"{percent(value, 0)}{limits} of {heads}")


def _rate(data: xr.Dataset) -> str:
    """Return the false-discovery rate in percent."""
    return percent(float(data.attrs["false_discovery_rate"]), 0)


def _by_layer(data: xr.Dataset, claims: Claims) -> Table:
    """Return the table of heads that hold / fail, by layer."""
    rows, codes = [], codes_of(data)
    answers = [column(data, claim) for claim in claims]
    for index, layer in enumerate(data["layer"].values):
        counts = [
            [int((answer[index] == codes[word]).sum()) for word in ("holds", "fails")]
            for answer in answers
        ]
        cells = [share(holds - fails, f"{holds} / {fails}") for holds, fails in counts]
        rows.append([whole(float(layer)), *cells])
    names = (replace(text(claim["key"]), html=text(short_name(claim)).html) for claim in claims)
    headers = [mixed("layer"), *names]  # short names on the page, keys in files
    caption = (
        "Heads in which a claim holds{}fails, by layer; the others hold trivially, are undetermined"
        " or have no estimate."
    )
    tight = [[row[0], *(text(cell.plain.replace(" ", "")) for cell in row[1:])] for row in rows]
    narrow = _numbered("layer", claims, tight, caption.format("/"))
    caption = f"{caption.format(' / ')} Columns sort by the difference."
    align = "r" * len(headers)
    title = "Verdicts by layer"
    return Table("verdict_layers", title, caption, headers, rows, align, narrow=narrow)


SIDES = {"at_most": "≤", "at_least": "≥", "within": "|·| ≤"}

SIGNS = {"holds": "+", "holds trivially": "=", "fails": "−", "undetermined": "·"}
"""Sign of each answer in narrow tables."""


def tolerance(claim: Mapping[str, Any]) -> str:
    """Return the tolerance of a claim with its relation: `≤ 0.05`."""
    return f"{SIDES[claim['side']]} {claim['tolerance']:g}"


def _on_paper(run: Run, data: xr.Dataset) -> Table:
    """Return the narrow table of verdicts, with star and dagger explained in the caption."""
    counts = {"fails": "fails", "undet.": "undetermined"}
    counts |= {"holds*": "holds_adjusted", "fails*": "fails_adjusted"}
    columns = (
        Column("claim (tolerance)", _named_in_short, "p"),
        wholes("holds", "holds"),
        Column("trivially", _trivially),
        *(
            wholes(words, name) if name in data else Column(words, lambda row: missing())
            for words, name in counts.items()
        ),
        Column("true of", lambda row: percentage(with_limits(row, "true_share")[0], 0)),
        Column("95% interval", _limits),
    )
    caption = (
        "Heads in which a claim holds (the 95% interval of the effect lies within the tolerance),"
        " holds trivially (within, but a constant predicts held-out documents as well), fails"
        f" (outside) or is undetermined (neither), over {run.counted('document')}. * Answers"
        f" that remain at a false-discovery rate of {_rate(data)} per claim (Benjamini–Hochberg). †"
        " KV heads; the others are query heads. True of: estimated share of heads for which the"
        " claim is true, with its 95% interval over documents; n/a for bounds."
    )
    return Table.of("verdicts", "Verdicts", caption, columns, _by_claim(data))


def _named_in_short(row: xr.Dataset) -> Cell:
    """Return a claim with its tolerance, and a dagger if it is on KV heads."""
    dagger = "†" * (row.attrs["of"] == "kv_head")
    return mixed(f"{short_name(row.attrs)}{dagger} ({tolerance(row.attrs)})")


def _limits(row: xr.Dataset) -> Cell:
    _, low, high = with_limits(row, "true_share")
    return share(low, f"{100 * low:.0f}–{percent(high, 0)}") if np.isfinite(low) else missing()


def _every_head(run: Run, data: xr.Dataset, claims: Claims) -> Table:
    """Return the narrow table of verdicts by head: one row per head, one sign per claim."""
    signs = {code: SIGNS.get(word, "") for code, word in words_of(data).items()}
    answers = [column(data, claim) for claim in claims]
    kv_head_of_head = run.kv_head_of_head
    rows = [
        [
            whole(float(layer)),
            whole(float(head)),
            *(
                text(signs[int(answer[i, kv_head_of_head[j] if claim["of"] == "kv_head" else j])])
                for claim, answer in zip(claims, answers, strict=True)
            ),
        ]
        for i, layer in enumerate(data["layer"].values)
        for j, head in enumerate(run.capture["head"].values)
    ]
    caption = (
        "+ The claim holds; = it holds trivially; − it fails; · undetermined; blank: no estimate."
        " Claims on KV heads show the verdict of the head’s KV head."
    )
    return _numbered("head", claims, rows, caption)


def _numbered(by: str, claims: Claims, rows: Sequence[Sequence[Cell]], caption: str) -> Table:
    """Return verdicts by layer or head, with numbered claims whose names follow in the caption."""
    keys = ["layer", "head"][: 1 + (by == "head")]
    names = [f"{number} {short_name(claim)}" for number, claim in enumerate(claims, start=1)]
    headers = header(*keys, *(name.partition(" ")[0] for name in names))
    align, caption = "r" * len(keys) + "c" * len(claims), f"{caption} Claims: {'; '.join(names)}."
    title = f"Verdicts by {by}"
    return Table(f"verdict_{by}s", title, caption, headers, rows, align)


NUMBERS = (
    *("estimate", "se", "skew", "lower", "upper"),
    *("p_holds", "p_fails", "p_holds_adjusted", "p_fails_adjusted"),
    *("cell_bound", "cell_n", "cell_count", "cell_p_holds", "cell_p_fails"),
)
"""Numbers of /verdicts by head and claim; those of the cell describe the decisive bound."""


DETAILS = "verdict_heads"
"""Name of the table of verdicts by head, the target of links."""


def _by_head(run: Run, data: xr.Dataset, claims: Claims) -> Table:
    """Return the table with one row per head and claim: the verdict and its evidence."""
    words, bounds = words_of(data), json.loads(str(data.attrs.get("bounds", "{}")))
    rows = []
    for claim in claims:
        parts = {name: column(data, claim, name) for name in ("answer", *NUMBERS)}
        letter = "V" if claim["of"] == "kv_head" else "H"
        layers, heads = data["layer"].values, data[claim["of"]].values
        for i, j in np.ndindex(parts["answer"].shape):
            row = {name: float(values[i, j]) for name, values in parts.items()}
            bound = bounds.get(f"{row['cell_bound']:.0f}", "")
            name, answer = f"L{layers[i]}{letter}{heads[j]}", words[int(row["answer"])]
            rows.append([_named(claim), text(name), text(answer), *_evidence(claim, row, bound)])
    columns = ("claim", "head", "verdict", "estimate", "95% interval", "skewness", "tolerance")
    p = ("p (holds)", "p (fails)", "adjusted p (holds)", "adjusted p (fails)")
    headers = header(*columns, *p, "source of estimate")
    caption, narrow = _how_to_read(run, data), _every_head(run, data, claims)
    align = "lllrrrrrrrrl"
    return Table(DETAILS, "Every verdict", caption, headers, rows, align, narrow=narrow)


def _named(claim: Mapping[str, Any]) -> Cell:
    """Return a claim by its key in files, and by its short name on the page."""
    cell, words = text(claim["key"]), text(short_name(claim))
    html = Markup('<span data-name="{}">{}</span>').format(cell.plain, words.html)
    return replace(cell, html=html)


def _evidence(claim: Mapping[str, Any], row: Mapping[str, float], bound: str) -> list[Cell]:
    """Return the cells behind a verdict; for a claim on bounds, p-values of the decisive bound."""
    p = [row[f"cell_p_{answer}" if bound else f"p_{answer}"] for answer in ("holds", "fails")]
    limits = (
        f"{rounded(row['lower']).plain} to {rounded(row['upper']).plain}"
        if np.isfinite(row["se"])
        else MISSING
    )
    return [
        number(row["estimate"], row["se"]),
        text(limits),
        _skewness(row["skew"]),
        text(tolerance(claim)),
        *map(p_value, (*p, row["p_holds_adjusted"], row["p_fails_adjusted"])),
        text(_source(claim, row, bound)),
    ]


def _how_to_read(run: Run, data: xr.Dataset) -> str:
    """Return the caption of the table of all verdicts."""
    errors = f"± over {run.counted('document')}" if run.documents > 1 else "One document: no ±"
    return (
        "Evidence of each verdict. L5V2: KV head 2 of layer 5; L5H3: head 3. A claim holds if the"
        " interval lies within the tolerance, and fails if it lies outside; then p (holds), or p"
        " (fails), is at most 5% (1 minus the level of the widest such interval). It holds"
        " trivially if the interval lies within the tolerance, but a flat form predicts held-out"
        " documents as well; p (holds) is then that of the second test. Standard errors"
        " (±), skewness over documents and intervals are moderated over the heads of the claim."
        f" Adjusted: over those heads (Benjamini–Hochberg); an adjusted p of at most {_rate(data)}"
        " is significant at that false-discovery rate. If the last column names a second p-value, p"
        " (holds) is the larger of both tests. A claim on bounds combines upper and lower bounds on"
        " Precision and Recall at every N; its row shows estimate, interval and p of the decisive"
        " bound. If the claim fails, this bound has the smallest p (fails), multiplied by the"
        " number of bounds; otherwise it has the largest p (holds). Adjusted p are based on the"
        f" largest and the smallest p of all bounds. Intervals are not adjusted. {errors}."
    )


def _skewness(value: float) -> Cell:
    """Return a cell with a skewness to two decimals."""
    return (
        replace(text(f"{value:z.2f}".replace("-", "−")), sort=value)
        if np.isfinite(value)
        else missing()
    )


def _source(claim: Mapping[str, Any], row: Mapping[str, float], bound: str) -> str:
    """Return the variable of an estimate; for a claim on bounds, curve minus bound."""
    where = str(claim["estimate"])
    if bound:
        statistic, _, side = bound.partition("_")
        above, below = (bound, statistic) if side == "lower" else (statistic, bound)
        where += f"/{above} − {below} at N = {row['cell_n']:.0f}"
    where += "".join(f", {name} {value}" for name, value in claim.get("select", {}).items())
    if bound:
        where += f"; one of {count(int(row['cell_count']), 'bound')}"
    return where + (f"; and {claim['second_test']}" if "second_test" in claim else "")


def _said(header: str, key: str, align: str = "p") -> Column:
    """Return a column of a text of geostat's, from records."""
    return Column(header, lambda row: mixed(str(row.get(key) or "").replace(*NTH)), align)


NTH: Final = ("α_(N)", r"$\alpha_{(N)}$")
"""The N-th largest weight in plain text, and as a symbol."""


def _errata(run: Run) -> Table:
    """Return the table of errata that matter for reading the report."""
    columns = [Column("no.", lambda row: whole(float(row.get("number", 0))))]
    columns += [_said("statement", "title"), _said("printed", "printed")]
    columns += [_said("correct", "true"), _said("relevance to this report", "reading")]
    caption = (
        "Statements of arXiv 2602.01893 that are wrong or undefined as printed and affect the"
        " reading of this report."
    )
    rows = json.loads(run.summary.attrs.get("errata") or "[]")
    return Table.of("errata", "Errata", caption, columns, rows)


SYMBOLS: Final = {
    "a_0": "a_0",
    "a_min_in": r"a_{\mathrm{min,in}}",
    "a_max_out": r"a_{\mathrm{max,out}}",
    "beta": r"\beta",
    "rho_0": r"\rho_0",
}
"""LaTeX symbol of a parameter's name; other names are printed as they are."""

CORRECTED: Final = (
    "Table {number} of arXiv 2602.01893 as printed, with the verdict on each row by proof and"
    " simulation of the theory, not from this run. Conditional: true under a condition that the"
    " paper omits.{more} Derivations: geostat theory table {number}."
)


def _paper_tables(run: Run) -> list[Table]:
    """Return both corrected tables, for LaTeX only; none if the run does not contain them."""
    corrected = json.loads(str(run.summary.attrs.get("paper_tables", "{}")))
    if not corrected:
        return []
    first = (
        Column("raised", lambda row: _parameter(row["raised"]), "l"),
        _said("printed", "printed"),
        _said("verdict", "verdict", "l"),
        _said("correct", "true"),
    )
    second = (
        _said("", "row", "l"),
        _said("N", "sizes", "l"),
        _said("composition of $I_N$", "composition"),
        _said(r"trend of $\Delta/B$", "trend"),
        _said("effect", "effect"),
        _said("verdict", "verdict", "l"),
        _said("correct", "true"),
    )
    on_bounds = (
        " True of the bound: the row holds for the printed bounds, not for Precision and Recall."
    )
    titles = (
        "Effect of each parameter (Table 1 of the paper, corrected)",
        "Regimes of N (Table 2 of the paper, corrected)",
    )
    return [
        Table.of(
            f"paper_table_{number}",
            title,
            CORRECTED.format(number=number, more=more),
            columns,
            corrected[f"table_{number}"],
            only_latex=True,
        )
        for number, title, columns, more in zip(
            (1, 2), titles, (first, second), (on_bounds, ""), strict=True
        )
    ]


def _parameter(name: str) -> Cell:
    return symbol(SYMBOLS[name]) if name in SYMBOLS else mixed(name.replace(*NTH))


def tables(run: Run) -> list[Table]:
    """Return scoreboard, verdicts, errata and the paper's corrected tables, if the run has them."""
    return [*_scoreboard(run), *_verdicts(run), _errata(run), *_paper_tables(run)]
