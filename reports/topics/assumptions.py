"""Assumptions 1 to 3: fitted value norms, similarity and attention weights, with measured curves.

Source: arXiv 2602.01893, §3.1-3.3, Figures 2, 3 and 4.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np
import xarray as xr
from matplotlib import rcParams
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from reports.figures import style
from reports.figures.plan import Caption, Numbers, figures_of, planned
from reports.figures.shapes import COMPARED, line
from reports.run import Run, each
from reports.statistics import FloatArray, flat, mean, median, quartiles
from reports.tables.table import (
    Cell,
    Column,
    Table,
    between,
    header,
    mixed,
    number,
    percentages,
    share,
    symbol,
    text,
    whole,
    wholes,
)
from reports.text.number import count, percent
from reports.topics.entry import Entry

SINK: dict[str, Any] = {"marker": "o", "markersize": 5, "linestyle": "none"}
"""Marker of the sink."""

NULL: dict[str, Any] = {"color": style.PURPLE, "linestyle": ":", "linewidth": 1.3}
"""Line style of a null baseline."""

REFERENCE: dict[str, Any] = {"linestyle": (0, (4, 2)), "linewidth": 1.1}
"""Line style of a reference value."""

MIDDLE = "middle 80% of KV heads"
"""Label of a band over KV heads."""


def _positions(run: Run) -> tuple[float, float]:
    """Return axis limits for the positions that the last query sees."""
    return run.positions - 1.03 * run.tokens, run.positions + 0.01 * run.tokens


SHORT = {
    "sink_smallest_share": r"\pi_{\mathrm{sink}}",
    "compressed_share": r"\pi_{\mathrm{short}}",
    "rho0_spread_floor": r"\mathrm{sd}_{\min}",
}
"""Short symbols that replace formulas in narrow columns."""


def figure_norms(axes: Sequence[Axes], run: Run) -> Sequence[Axes]:
    """Draw ‖v_i‖/C over position, and the histograms of both coefficients of variation, on two
    axes (Figure 2).
    """
    _norm_profile(axes[0], run)
    _norm_variation(axes[1], run)
    return axes


def _norm_profile(axes: Axes, run: Run) -> None:
    level, low, high = (run.display[name].values for name in ("norm", "norm_low", "norm_high"))
    sink = np.asarray(run.norms["sink_visible"].values, dtype=bool).any()
    tokens = slice(1 if sink else 0, run.positions)
    content = np.arange(run.positions)[tokens]
    shade: style.Kwargs = {"color": style.SKY, "alpha": 0.35, "linewidth": 0, "label": MIDDLE}
    axes.fill_between(content, low[tokens], high[tokens], **shade)
    label = "mean over KV heads"
    axes.plot(content, level[tokens], color=style.BLUE, linewidth=0.7, label=label)
    label = "Assumption 1: $\\Vert v_i\\Vert = C$"
    axes.axhline(1.0, color=style.VERMILLION, label=label, **REFERENCE)
    if sink and np.isfinite(level[0]):
        error = np.array([[level[0] - low[0]], [high[0] - level[0]]]).clip(min=0)
        look: style.Kwargs = {"color": style.BLACK, "capsize": 2.5, "linewidth": 1.0, **SINK}
        axes.errorbar([0], level[:1], yerr=error, label="sink (position 0)", **look)
    top = np.nanmax(high) if np.isfinite(high).any() else 1.0
    axes.set(xlim=_positions(run), ylim=(0, max(1.25, 1.08 * top)))
    axes.set(xlabel="position $i$", ylabel="$\\Vert v_i\\Vert\\,/\\,C$")
    axes.set_title("Norm of value vectors")
    style.legend_below(axes)


def _norm_variation(axes: Axes, run: Run) -> None:
    token, averaged = (flat(run.norms[name]) for name in ("cv_token", "cv_profile"))
    least, most = run.display.attrs["paper_cv_range"]
    values = np.concatenate([token[token > 0], averaged[averaged > 0], [least, most]])
    edges = np.geomspace(values.min() / 1.1, values.max() * 1.1, 33)
    label = f"most heads in the paper, {least:g}–{most:g}"
    axes.axvspan(least, most, color=style.PALE, linewidth=0, label=label)
    within, profile = "within a document, token by token", "of the profile averaged over documents"
    samples = [(within, style.BLUE, token), (profile, style.ORANGE, averaged)]
    _histograms(axes, samples, edges)
    _log_ticks(axes, edges[0], edges[-1])
    axes.set(xlabel="coefficient of variation (log)", ylabel="KV heads")
    axes.set_title("Variation of the norm by head")
    style.legend_below(axes, columns=1)


@planned(figure_norms, "Do value vectors have constant norm?", 3.5, paper="Figure 2")
def caption_norms(run: Run) -> Caption:
    """Return the caption of the counterpart of Figure 2."""
    token, profile, sinks = (flat(run.norms[name]) for name in ("cv_token", "cv_profile", "lam"))
    limit = run.display.attrs["paper_cv_range"][1]
    steady, smooth, shorter = (token <= limit).sum(), (profile <= limit).sum(), (sinks < 1).sum()
    description = (
        "Left: norm of the value vectors at each position, divided by the head’s mean norm C and"
        f" averaged over {run.counted('document')}. Line: mean over {run.counted('KV head')}; band:"
        " the middle 80% of them; circle: the sink, with the same band. Right: coefficient of"
        " variation (standard deviation over mean) of the norm in each head, over tokens within a"
        " document, and of the profile averaged over documents (as plotted in the paper). Look for:"
        " a flat line at 1 with a low circle, and coefficients near 0."
    )
    say = Numbers()
    most = say.percent("limit", limit, 0)
    finding = (
        "Over tokens, the coefficient of variation of the norm is"
        f" {say.percent('cv_token, median of heads', median(token), 0)} in the median head, and at"
        f" most {most} in {say.whole('heads within, token to token', steady)} of"
        f" {say.whole('heads, token to token', token.size)} KV heads; of the profile averaged over"
        f" documents, it is {say.percent('cv_profile, median of heads', median(profile))}"
        f" ({say.whole('heads within, averaged', smooth)} of"
        f" {say.whole('heads, averaged', profile.size)} at most {most}). "
    )
    if not sinks.size:
        return Caption(description, f"{finding}The analysed query sees no sink.", say.all)
    finding += (
        f"The sink’s norm is {say.figures('lam, median of heads', median(sinks))} times that of a"
        " content token in the median head, and smaller in"
        f" {say.whole('heads with a shorter sink', shorter)} of"
        f" {say.whole('heads with a sink', sinks.size)}."
    )
    return Caption(description, finding, say.all)


NORMS = (
    *("C", "lam", "sink_smallest_share", "cv_token", "cv_profile", "cv_position"),
    *("trend", "trend_se_hac", "share_document", "share_position", "share_residual"),
    "compressed_share",
)
"""Parameters of norms: sizes and variation, trend over positions and variance components."""


def token_texts(run: Run) -> dict[int, str]:
    """Return the text of tokens by id, with line breaks and control characters escaped."""
    texts_by_id = run.attrs.get("token_texts") or {}
    pairs = zip(texts_by_id.get("id", ()), texts_by_id.get("text", ()), strict=False)
    return {int(token): repr(str(words))[1:-1] for token, words in pairs}


MOST_TOKENS = 12
"""Number of compressed tokens in the table."""


def _compressed(run: Run) -> list[Table]:
    """Return the table of tokens and positions with compressed value vectors besides the sink."""
    data = run.norms
    if "compressed_token_id" not in data:
        return []
    texts, positions = token_texts(run), data.sizes.get("secondary_sink", 0)

    def what(row: xr.Dataset) -> Cell:
        words = texts.get(int(row["place"])) if row["kind"] == "token" else None
        return text(row["kind"].item() + ("" if words is None else f" “{words}”"))

    columns = (
        Column("what", what, "l"),
        wholes("token id or position", "place"),
        wholes("compressed", "count"),
        wholes("of occurrences", "occurrences"),
        percentages("share", "share"),
        wholes("KV heads", "heads"),
    )
    tokens = data.isel(compressed_token=slice(MOST_TOKENS)).assign_coords(kind="token")
    rows = [*each(_without(tokens, "compressed_token").rename(id="place"), "compressed_token")]
    if positions:
        sinks = _without(data.assign_coords(kind="position"), "secondary_sink")
        sinks = sinks.rename(position="place", documents="count")
        rows += each(sinks.assign(occurrences=data["documents"].sum()), "secondary_sink")
    caption = (
        "A token is compressed if its norm is at most half the median content norm of its document."
        f" Counts are over documents and {run.counted('KV head')}. KV heads: for a token, those"
        " that compress at least half of its occurrences; for a position, those with a secondary"
        " sink there (compressed in most documents, and significantly more often than by chance:"
        f" {count(positions, 'such position')}). Tokens: those compressed most often; ids are those"
        " of the model’s tokenizer."
    )
    title = "Compressed tokens besides the sink"
    return [Table.of("compressed", title, caption, columns, rows)]


def _without(data: xr.Dataset, prefix: str) -> xr.Dataset:
    """Return the variables of a prefix, under names without it."""
    names = [name for name in map(str, data) if name.startswith(f"{prefix}_")]
    return data[names].rename({name: name.removeprefix(f"{prefix}_") for name in names})


FORM_WORDS = {
    "exponential": ("exponential $e^{-\\beta k}$ (Assumption 2)", style.VERMILLION),
    "offset": ("with an offset, $c+(1-c)e^{-\\beta k}$", style.GREEN),
}


def null_misfit(run: Run, by: str = "lag") -> float:
    """Return the mean absolute cosine of random directions, by "lag" or "pair", in the median head;
    NaN if unknown.
    """
    name = f"chance_by_{by}"
    return median(run.similarity[name]) if name in run.similarity else float("nan")


def figure_similarity(axes: Sequence[Axes], run: Run) -> Sequence[Axes]:
    """Draw the misfit of both forms by head, and the mean cosine by lag of the median head with
    both fits, on two axes (Figure 3).
    """
    forms = {
        form: words for form, words in FORM_WORDS.items() if form in run.similarity["gram"].values
    }
    _misfit(axes[0], run, forms)
    _cosine_by_lag(axes[1], run, forms)
    style.legends_once(axes)
    return axes


def _misfit(axes: Axes, run: Run, forms: dict[str, tuple[str, str]]) -> None:
    paper = run.display.attrs["paper_mae"]
    misfits = [
        (*words, flat(run.similarity["mae_by_lag"].sel(gram=form))) for form, words in forms.items()
    ]
    most = max([values.max() for *_, values in misfits if values.size] + [1.2 * paper])
    _histograms(axes, misfits, np.linspace(0, 1.02 * most, 37))
    axes.axvline(paper, color=style.BLACK, label=f"the paper's average, {paper:g}", **REFERENCE)
    floor = null_misfit(run)
    if np.isfinite(floor):
        axes.axvline(floor, label=f"null: random directions, {floor:.2g}", **NULL)
    axes.set(xlim=(0, 1.02 * most), xlabel="mean absolute error over lags", ylabel="KV heads")
    axes.set_title("Misfit of both forms by head")


def _cosine_by_lag(axes: Axes, run: Run, forms: dict[str, tuple[str, str]]) -> None:
    lag, shown = run.capture["lag"].values.astype(np.float64), run.display
    shade: style.Kwargs = {"color": style.PALE, "alpha": 0.7, "linewidth": 0, "label": MIDDLE}
    axes.fill_between(lag, shown["cosine_low"], shown["cosine_high"], **shade)
    axes.axhline(0, color=style.GREY, linewidth=0.8)
    if (head := shown.attrs["similarity_head"]) is not None:
        layer, kv_head = (
            run.capture["layer"].values[head[0]],
            run.capture["kv_head"].values[head[1]],
        )
        label = f"measured (layer {layer}, KV head {kv_head})"
        axes.plot(lag, shown["cosine"], color=style.BLACK, linewidth=1.2, label=label)
        for form, (label, colour) in forms.items():
            dashes = (0, (4, 2)) if form == "exponential" else "-."
            fitted = shown["cosine_fitted"].sel(form=form)
            axes.plot(lag, fitted, color=colour, linestyle=dashes, label=label)
    largest = max(float(lag.max()) if lag.size else 2.0, 2.0)
    style.size_axis(axes, largest, "lag $k=|i-j|$ in tokens (log)")
    axes.set(ylabel="mean cosine of value vectors", title="Similarity by lag")


@planned(figure_similarity, "Does similarity decay exponentially?", 3.7, paper="Figure 3")
def caption_similarity(run: Run) -> Caption:
    """Return the caption of the counterpart of Figure 3."""
    floors = [null_misfit(run, by) for by in ("lag", "pair")]
    null = (
        " Dotted: null baseline, the mean absolute cosine by lag of random directions in"
        f" {run.dimension} dimensions, {figures_of(floors[0])} (single pair:"
        f" {figures_of(floors[1])})."
        if np.isfinite(floors).all()
        else ""
    )
    description = (
        "Left: mean absolute error of two fitted forms of the mean cosine between value vectors at"
        " lag k: the exponential of Assumption 2, and decay to an offset c;"
        f" {run.counted('KV head')}, each fitted to the mean over {run.counted('document')}.{null}"
        " Right: mean cosine by lag in the head of median misfit (black), both fits, and the middle"
        " 80% of all heads (grey). Look for: misfits well below"
        f" {run.display.attrs['paper_mae']:g}, the paper’s average, and a black line on the dashed"
        " one."
    )
    say = Numbers()
    heads, parts = say.whole("KV heads", run.kv_heads), []
    for form, words in (("exponential", "exponential"), ("offset", "form with an offset")):
        if form in run.similarity["gram"].values:
            misfit = median(run.similarity["mae_by_lag"].sel(gram=form))
            parts.append(f"{words} {say.figures(f'mae_by_lag, {form}, median of heads', misfit)}")
    finding = f"Mean absolute error in the median of {heads} KV heads: {', '.join(parts)}"
    if "offset_preferred" in run.similarity:
        how = "predicts held-out documents better" if run.documents > 1 else "has the lower BIC"
        preferred = say.whole(
            "heads that prefer the offset", int(run.similarity["offset_preferred"].sum())
        )
        finding += f"; the form with an offset {how} in {preferred} of {heads} heads"
    finding += "."
    if "negative_fraction" in run.similarity:
        part = mean(run.similarity["negative_fraction"])
        below_0 = say.percent("negative_fraction, mean", part, 0)
        finding += f" {below_0} of all cosines are negative."
    return Caption(description, finding, say.all)


SIMILARITY_FORMS = {"exponential": "exponential form", "offset": "form with an offset"}
"""Names of the forms of similarity in the table of parameters; `rivals` has all forms."""

MEASURED = (
    *("chance_by_lag", "chance_by_pair", "rho0", "rho0_spread", "rho0_spread_floor"),
    *("negative_fraction", "drift_slope", "drift_rms"),
)
"""Parameters that do not depend on a form, and null baselines."""


def _similarity(run: Run) -> Table:
    """Return the table of Assumption 2 and its rival with an offset."""
    rows: list[list[Cell]] = []
    for form, words in SIMILARITY_FORMS.items():
        if form not in run.similarity["gram"].values:
            continue
        fit = run.similarity.sel(gram=form)
        offset = ["offset"] * (form == "offset")
        rows += _rows(fit, ("beta", *offset, "mae_by_lag", "mae_by_pair", "rmse", "r2"), words)
        meaning = f"{words}: the Gram matrix is positive semidefinite"
        rows += _flag(fit, "feasible", meaning, known=fit["mae_by_lag"])
    rows += _rows(run.similarity, MEASURED)
    better = (
        "the form with an offset predicts held-out documents better by more than one standard error"
        " (one document: by BIC)"
    )
    rows += _flag(run.similarity, "offset_preferred", better)
    what = "Cosines of value vectors by lag and with the sink, by KV head."
    return _parameters(run, "similarity", "Similarity of value vectors (Assumption 2)", what, rows)


def figure_weights(axes: Sequence[Axes], run: Run) -> Sequence[Axes]:
    """Draw mean attention weights over position, and Assumption 3's phases fitted to one head,
    on two axes (Figure 4).
    """
    for axis, draw in zip(axes, (_weight_profile, _median_head), strict=True):
        axis.set_yscale("log")
        axis.set_ylabel("attention weight $\\alpha_i$ (log)")
        draw(axis, run)
    style.legends_once(axes, columns=2)
    return axes


def _weight_profile(axes: Axes, run: Run) -> None:
    position = np.arange(run.positions)
    sink = bool(np.asarray(run.weights["sink_visible"].values).any())
    content = slice(1 if sink else 0, None)
    for kind, colour in (("arithmetic", style.ORANGE), ("geometric", style.BLUE)):
        values, label = run.display[f"weight_{kind}"].values, f"{kind} mean"
        axes.plot(position[content], values[content], color=colour, linewidth=0.9, label=label)
        if sink:
            axes.plot([0], values[:1], color=colour, clip_on=False, zorder=5, **SINK)
    axes.axhline(float(run.display["uniform"]), label="null: uniform weight $1/T$", **NULL)
    axes.set(xlim=_positions(run), xlabel="position $i$ (circles: sink, position 0)")
    axes.set_title("All heads and documents")


def _median_head(axes: Axes, run: Run) -> None:
    axes.set_xlabel("position $i$")
    if (index := run.display.attrs["weights_head"]) is None:
        axes.set_title("No head could be fitted")
        return
    position, shown = np.arange(run.positions), run.display
    label = "measured (geometric mean)"
    axes.plot(position, shown["weight"], color=style.BLUE, linewidth=0.6, alpha=0.75, label=label)
    label = "Assumption 3, fitted"
    axes.plot(position, shown["weight_fitted"], color=style.BLACK, linewidth=1.3, label=label)
    p_sink = float(run.weights["p_sink"].transpose("layer", "head").values[index])
    if np.isfinite(p_sink) and p_sink > 0:
        look: style.Kwargs = {"color": style.BLACK, "label": "$p_\\mathrm{sink}$", **SINK}
        axes.plot([0], [p_sink], clip_on=False, zorder=5, **look)
    axes.axhline(float(shown["uniform"]), label="null: uniform weight $1/T$", **NULL)
    axes.set_xlim(_positions(run))
    _mark_phases(axes, run)
    axes.set_title(f"Head of median misfit: {_drawn_head(run, index)}")


def _drawn_head(run: Run, index: tuple[int, int]) -> str:
    layer, head = index
    return f"layer {run.capture['layer'].values[layer]}, head {run.capture['head'].values[head]}"


def _mark_phases(axes: Axes, run: Run) -> None:
    """Draw T₁ and T₂ as labelled vertical lines, with one label for both if they are close."""
    low, high = axes.get_ylim()
    axes.set_ylim(low, high * (high / low) ** 0.12)
    (t1, t2), positions = run.display["phase_starts"].values.tolist(), run.positions
    if not (np.isfinite([t1, t2]).all() and 0 <= t1 <= t2 < positions):
        return
    marks = [(t1, "$T_1$"), (t2, "$T_2$")]
    for start, _ in marks:
        axes.axvline(start, color=style.GREY, linewidth=0.9, linestyle=(0, (2, 2)))
    if t2 - t1 < 0.12 * positions:
        marks = [(t1 if t2 > positions / 2 else t2, "$T_1=T_2$" if t1 == t2 else "$T_1,\\,T_2$")]
    for start, label in marks:
        side, shift = ("right", -3) if start > positions / 2 else ("left", 3)
        look: style.Kwargs = {"ha": side, "va": "top", "fontsize": rcParams["ytick.labelsize"]}
        look |= {"xycoords": ("data", "axes fraction"), "textcoords": "offset points"}
        axes.annotate(label, (start, 1.0), (shift, -3), **look)


@planned(figure_weights, "Do weights have four phases?", 3.6, paper="Figure 4")
def caption_weights(run: Run) -> Caption:
    """Return the caption of the counterpart of Figure 4."""
    sinks = flat(run.weights["p_sink"])
    content = run.display["weight_geometric"].values[1 if sinks.size else 0 :]
    description = (
        f"Left: attention weight of {run.queries} on each position, over {run.counted('head')} and"
        f" {run.counted('document')}. The arithmetic mean is dominated by the few heads that attend"
        " to a position, the geometric mean by the many that do not; Assumption 3 is fitted to the"
        f" geometric mean. Right: the fit {_typical(run)}: a sink, a plateau up to T₁, an"
        " oscillation up to T₂, exponential growth after T₂ (T₁ = T₂: no oscillation). Look for: a"
        " circle far above the line, a plateau, an oscillation, and growth at the right end."
    )
    say, finding = Numbers(), ""
    if sinks.size:
        of_sink = say.percent("p_sink, median of heads", median(sinks), 0)
        finding = f"The sink receives {of_sink} of the attention in the median head. "
    finding += (
        "The median over positions of the geometric mean weight is"
        f" {say.figures('weight, median of positions', median(content))}; uniform attention would"
        f" give {say.figures('1/T', float(run.display['uniform']))}."
    )
    return Caption(description, finding + _phases(run, say), say.all)


def _typical(run: Run) -> str:
    """Return the head that is drawn, with the misfit of its fit, in words."""
    if (index := run.display.attrs["weights_head"]) is None:
        return "(no head could be fitted)"
    misfit = figures_of(float(run.weights["rmse"].transpose("layer", "head").values[index]))
    return f"in the head of median misfit ({_drawn_head(run, index)}; RMSE {misfit} nats)"


def _phases(run: Run, say: Numbers) -> str:
    """Return sentences: heads with significant growth and oscillation, and its amplitude."""
    sentences = ""
    if "growth_identified" in run.weights:
        growing = int(run.weights["growth_identified"].sum())
        with_growth = say.whole("heads with growth", growing)
        sentences += (
            f" Growth towards the last token is significant in {with_growth} of"
            f" {say.whole('heads', run.heads)} heads."
        )
    if "oscillation_identified" in run.weights:
        oscillates = run.weights["oscillation_identified"].astype(bool)
        oscillating = int(oscillates.sum())
        sentences += (
            " An oscillation with the same η as the growth, as printed, is significant in"
            f" {say.whole('heads with the printed oscillation', oscillating)}"
        )
        if oscillating:
            amplitude = median(run.weights["eta"].where(oscillates))
            sentences += (
                f", with a median amplitude η of {say.percent('eta, median of these', amplitude)}"
                " of the plateau"
            )
        sentences += "."
    return sentences


WEIGHT_PARAMETERS = (
    *("p_sink", "p_base", "eta", "omega", "t1", "t2"),
    *("total", "total_model", "mass_plateau", "mass_oscillation", "mass_tail"),
    *("rmse", "r2", "residual_autocorrelation", "long_run_noise"),
)
"""Parameters of the phases, masses, and fit statistics."""


OSCILLATIONS = {
    "shared": "with the η of the growth, as printed,",
    "separate": "with a separate amplitude",
}
"""Description of each form of weights with an oscillation."""


def _weights(run: Run) -> Table:
    """Return the table of Assumption 3."""
    rows = _rows(run.weights, WEIGHT_PARAMETERS)
    flag = "form_oscillation_identified"
    if flag in run.weights:
        for form in (form for form in run.weights["form"].values if form in OSCILLATIONS):
            meaning = f"an oscillation {OSCILLATIONS[str(form)]} is significant"
            rows += _flag(run.weights.sel(form=form), flag, meaning)
    rows += _flag(run.weights, "growth_identified")
    what = (
        "Attention weights of the last token, by head. If an oscillation is identified (T₁ < T₂), η"
        " is its amplitude and ω its frequency; otherwise η is the rate of growth per token. T₁ and"
        " T₂ are positions."
    )
    return _parameters(run, "weights", "Attention weights (Assumption 3)", what, rows)


def _histograms(
    axes: Axes, samples: Sequence[tuple[str, str, FloatArray]], edges: FloatArray
) -> None:
    for label, colour, values in samples:
        counts, _ = np.histogram(values, bins=edges)
        axes.stairs(counts, edges, fill=True, color=colour, alpha=0.35)
        axes.stairs(counts, edges, color=colour, linewidth=1.2, label=label)
    axes.set_ylim(bottom=0)
    axes.yaxis.set_major_locator(MaxNLocator(integer=True))


def _log_ticks(axes: Axes, low: float, high: float) -> None:
    """Make the x axis logarithmic, with 1-2-5 tick labels."""
    axes.set_xscale("log")
    decades = range(int(np.floor(np.log10(low))), int(np.ceil(np.log10(high))) + 1)
    steps = (1, 2, 5) if high / low < 300 else (1,)
    ticks = [step * 10.0**k for k in decades for step in steps if low <= step * 10.0**k <= high]
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.set_xticks([], minor=True)
    axes.set_xlim(low, high)


def _parameters(run: Run, name: str, title: str, what: str, rows: list[list[Cell]]) -> Table:
    error = (
        "typical ± is the median over heads of the standard error of a head's estimate, a jackknife"
        f" over {run.counted('document')}"
        if run.documents > 1
        else "one document gives no standard errors (n/a)"
    )
    caption = (
        f"{what} Median over heads with quartiles in brackets; {error}; heads: number with an"
        " estimate. Sources: arXiv 2602.01893."
    )
    headers = header(
        "parameter", "meaning (unit); source", "median [quartiles]", "typical ±", "heads"
    )
    return Table(name, title, caption, headers, rows, "lprrr")


def _rows(data: xr.Dataset, names: Iterable[str], form: str = "") -> list[list[Cell]]:
    """Return one row per parameter in the run; `form` names its form of similarity."""
    rows = []
    for name in (name for name in names if name in data):
        values, attrs, error = data[name], data[name].attrs, data.get(f"{name}_se")
        latex = SHORT.get(name) or str(attrs.get("symbol") or "")
        unit, words = str(attrs.get("units", "1")), str(attrs.get("long_name", name))
        if form:
            for ending in ("; 0 for forms without", ", density uniform within histogram bins"):
                words = words.removesuffix(ending)
            words = f"{form}: {words}"
        rows.append(
            [
                symbol(latex) if latex else text(name),
                mixed(f"{words}{'' if unit == '1' else f' ({unit})'}{_source(attrs)}"),
                between(*quartiles(values)),
                replace(text("–"), sort="") if error is None else number(median(error), digits=2),
                whole(float(flat(values).size)),
            ]
        )
    return rows


def _source(attrs: dict[str, object]) -> str:
    """Return the equation of a variable without the paper's number, after a semicolon."""
    equation = str(attrs.get("equation", "")).removeprefix("arXiv 2602.01893")
    equation = equation.removeprefix(", ").strip()
    return f"; {equation}" if equation else ""


def _flag(
    data: xr.Dataset, name: str, meaning: str = "", known: xr.DataArray | None = None
) -> list[list[Cell]]:
    """Return a row with the share of heads that have a flag; none if the run lacks it."""
    if name not in data:
        return []
    flags = data[name].values.astype(bool)
    counted = np.isfinite(known.values) if known is not None else np.ones_like(flags)
    total = int(counted.sum())
    part = float((flags & counted).sum() / total) if total else float("nan")
    words = meaning or str(data[name].attrs.get("long_name", name))
    return [
        [
            text("share"),
            mixed(words + _source(data[name].attrs)),
            share(part, f"{percent(part)} of heads"),
            text("–"),
            whole(total),
        ]
    ]


def curve_norms(axes: Axes, run: Run) -> None:
    """Draw value norms by position, of one document, in the median head."""
    if (index := run.display.attrs["norms_head"]) is None:
        return
    layer, head = index
    norm = run.capture["value_norm"].isel(document=0, layer=layer, kv_head=head).values
    line(axes, np.arange(norm.size), norm)
    axes.axhline(float(np.nanmedian(norm[1:])), **COMPARED)
    axes.set_ylim(0, None)


def curve_similarity(axes: Axes, run: Run) -> None:
    """Draw mean cosines by lag in the median head, with the fit."""
    lag, cosine = run.display["lag"].values, run.display["cosine"].values
    line(axes, lag, cosine)
    fitted = run.display["cosine_fitted"].sel(form="exponential").values
    line(axes, lag, fitted, **COMPARED)
    axes.set_xscale("log")


def curve_weights(axes: Axes, run: Run) -> None:
    """Draw weights by position in the median head, with the fit."""
    weight = run.display["weight"].values
    line(axes, np.arange(weight.size), weight)
    line(axes, np.arange(weight.size), run.display["weight_fitted"].values, **COMPARED)
    axes.set_yscale("log")


def tables(run: Run) -> list[Table]:
    """Return the tables of parameters of each assumption, and of compressed tokens."""
    title = "Norms of value vectors (Assumption 1)"
    what = (
        "Norms of value vectors by KV head; “value norm” is the unit of the model’s value vectors."
    )
    norms = _parameters(run, "norms", title, what, _rows(run.norms, NORMS))
    return [norms, *_compressed(run), _similarity(run), _weights(run)]


ENTRIES: Final = (
    Entry(
        key="norms",
        short="Norms",
        question="Do value vectors have constant norm, except for a small norm of the first token?",
        figures=("norms",),
        tables=("norms", "compressed", "sinks", "sink_tokens"),
        rows=("norms_stable", "sink_compressed"),
        claim="norms.cv",
        quantity="cv_token",
        fit='which="norms"',
        card="Value norms",
        curve=curve_norms,
        curve_words="norm by position, median head, one document; dashed: median",
    ),
    Entry(
        key="similarity",
        short="Similarity",
        question="Does similarity decay exponentially with lag?",
        figures=("similarity", "rank_and_lag"),
        tables=("similarity", "cosine_forms", "amended"),
        rows=("decay_exponential", "sink_one_cosine"),
        claim="similarity.exponential",
        quantity="mae",
        fit='which="similarity"',
        card="Similarity",
        curve=curve_similarity,
        curve_words="cosine by lag, median head; dashed: fit",
    ),
    Entry(
        key="weights",
        short="Weights",
        question="Do attention weights have four phases?",
        figures=("weights", "rivals"),
        tables=("weights", "rivals"),
        rows=("phases", "sink_weight", "oscillation", "recency", "recency_exponential"),
        claim="weights.shape_position",
        quantity="misfit",
        fit='which="weights"',
        card="Weights",
        curve=curve_weights,
        curve_words="weight by position, median head; dashed: fit",
    ),
)
