"""Contributions of tokens: value vectors on a sphere, and contributions by rank of weight.

Source: arXiv 2602.01893, §A.3, §4.2, Figures 9 and 10.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.ticker import LogLocator, NullLocator
from numpy.typing import NDArray

from reports.figures import style
from reports.figures.plan import Caption, Numbers, planned
from reports.run import Run, notes
from reports.statistics import flat, median
from reports.topics.sink_and_regimes import NOUNS, typical_head

Points = NDArray[np.float64]

AZIMUTH, ELEVATION = np.radians(-35.0), np.radians(28.0)
"""View direction of the sphere, radians."""

_ACROSS: Final = np.array([np.cos(AZIMUTH), np.sin(AZIMUTH)])
_TOWARDS: Final = np.array([*(np.cos(ELEVATION) * _ACROSS), np.sin(ELEVATION)])
"""Unit vector from the centre of the sphere to the viewer."""

COLOURS: Final = "cividis"

MARKS: Final[dict[str, dict[str, Any]]] = {
    "sink": {"marker": "^", "color": style.VERMILLION, "label": "sink (position 0)"},
    "last": {"marker": "*", "color": style.BLACK, "label": "last token"},
}

AXES_OF: Final = {
    "cosines": ("$v_L$", r"$v_0^\perp$", "rest"),
    "components": ("1st", "2nd", "3rd"),
}
"""Labels of the three axes of the sphere."""


def _projected(points: Points) -> tuple[Points, Points]:
    """Project points (…, 3) to the picture, (…, 2), with depths (…), positive in front."""
    x, y, z = np.moveaxis(points, -1, 0)
    right = -np.sin(AZIMUTH) * x + np.cos(AZIMUTH) * y
    towards = np.cos(AZIMUTH) * x + np.sin(AZIMUTH) * y
    up = np.cos(ELEVATION) * z - np.sin(ELEVATION) * towards
    return np.stack([right, up], axis=-1), points @ _TOWARDS


def _net(half: bool) -> Iterator[Points]:
    """Yield circles of latitude and longitude on the sphere, or on its upper half."""
    turn = np.linspace(0, 2 * np.pi, 121)
    for height in np.radians([0, 30, 60] if half else [-60, -30, 0, 30, 60]):
        flat_circle = np.cos(height) * np.array([np.cos(turn), np.sin(turn)])
        yield np.stack([*flat_circle, np.full(turn.size, np.sin(height))], axis=-1)
    rise = np.linspace(0, np.pi, 61) if half else turn
    right, up = np.linalg.svd(_TOWARDS[None])[2][1:]  # the outline is orthogonal to the view
    outline = np.outer(np.cos(turn), right) + np.outer(np.sin(turn), up)
    yield np.where(half & (outline[:, 2:] < 0), np.nan, outline)
    for angle in np.radians([0, 45, 90, 135]):
        out, up = np.cos(rise), np.sin(rise)
        yield np.stack([out * np.cos(angle), out * np.sin(angle), up], axis=-1)


def figure_sphere(axes: Sequence[Axes], run: Run) -> Sequence[Axes]:
    """Draw tokens of up to three heads as points on a sphere, coloured by position, on three axes
    (Figure 9).
    """
    data = run.needed("sphere")
    half, names = data.attrs["of"] == "cosines", AXES_OF[data.attrs["of"]]
    scale = Normalize(0, run.positions - 1)
    for axis, panel in zip(axes, range(data.sizes["panel"]), strict=False):
        for circle in _net(half):
            (right, up), depth = _projected(circle)[0].T, _projected(circle)[1]
            for shown, colour in ((depth >= -1e-9, "#bdbdbd"), (depth < -1e-9, "#e6e6e6")):
                parts = (np.where(shown, right, np.nan), np.where(shown, up, np.nan))
                axis.plot(*parts, color=colour, linewidth=0.6, zorder=1)
        points, depth = _projected(data["point"].isel(panel=panel).values)
        for shown, alpha, above in ((depth < 0, 0.35, 2), (depth >= 0, 0.9, 3)):
            look: style.Kwargs = {"s": 7, "cmap": COLOURS, "norm": scale, "linewidths": 0}
            look |= {"c": data["position"].values[shown], "alpha": alpha, "zorder": above}
            axis.scatter(points[shown, 0], points[shown, 1], **look)
        for token, index in (("sink", 0), ("last", -1)):
            axis.plot(*points[index], linestyle="none", markersize=8, zorder=5, **MARKS[token])
        for name, end in zip(names, np.eye(3), strict=True):
            _arrow(axis, name, end)
        axis.set(xticks=[], yticks=[], aspect="equal", xlim=(-1.35, 1.35))
        axis.set_ylim(-0.72 if half else -1.35, 1.3)
        axis.set_title(str(data["name"].values[panel]))
        axis.set_axis_off()
    for axis in list(axes)[data.sizes["panel"] :]:
        axis.set_axis_off()
    _scale(axes, scale, "position $i$")
    return axes


def _arrow(axes: Axes, name: str, end: Points) -> None:
    """Draw an axis of the sphere from the centre to beyond the surface, with its label."""
    tip, beyond = (tuple(_projected(reach * end)[0].tolist()) for reach in (1.16, 1.3))
    arrow = {"arrowstyle": "-|>", "color": style.GREY, "linewidth": 0.9, "shrinkA": 0}
    axes.annotate("", tip, (0, 0), arrowprops=arrow, zorder=4)
    axes.annotate(name, beyond, ha="center", va="center", color=style.BLACK)


def _scale(axes: Sequence[Axes], scale: Normalize, label: str) -> None:
    """Add one colour bar for all panels, and one legend of the markers below them."""
    figure, size = axes[0].figure, 0.05 if style.stacked(axes) else 0.03
    colours = ScalarMappable(scale, COLOURS)
    figure.colorbar(colours, ax=list(axes), label=label, pad=0.02, fraction=size)
    if entries := style.entries_of(*axes):
        place: style.Kwargs = {"loc": "outside lower center", "ncols": len(entries)}
        figure.legend(*zip(*entries, strict=True), **place)


@planned(
    figure_sphere,
    "How do value vectors lie on the sphere?",
    2.5,
    paper="Figure 9",
    grid=(1, 3),
    group="sphere",
)
def caption_sphere(run: Run) -> Caption:
    """Return the caption of the counterpart of Figure 9."""
    data = run.needed("sphere")
    if data.attrs["of"] == "components":
        shown, named = data.sizes["panel"], int(data.attrs["named"])
        heads = "heads" if shown == named else f"first {shown} of {named} heads"
        what = (
            f"Contributions of the {heads} named at the capture, projected to their first three"
            " principal components and scaled to length 1."
        )
        share = "The three components contain"
    else:
        what = (
            "Value vectors of the KV heads with the lowest, the median and the highest ρ₀, each"
            " scaled to length 1. First axis: the last token’s value v_L. Second axis: the"
            " component of the sink’s value v₀ orthogonal to v_L. Third axis: the norm of the"
            " remaining component, which is non-negative, so points lie on a hemisphere. The"
            " cosines with v_L and v₀ determine each point exactly."
        )
        share = "The plane of v_L and v₀ contains"
    drawn, total = data.sizes["token"], run.positions
    fewer = f" {drawn} of {total:,} tokens are drawn, evenly spaced." if drawn < total else ""
    description = (
        f"{what} One document, the first of {run.counted('document')}; darker points have earlier"
        f" positions, paler points lie behind the sphere.{fewer} Look for: tokens that spread over"
        " the sphere, or cluster on one side."
    )
    say = Numbers()
    shares = [
        f"{say.percent(f'share held, {name}', float(held), 0)} ({name})"
        for name, held in zip(data["name"].values, data["held"].values, strict=True)
        if np.isfinite(held)
    ]
    finding = f"{share} {', '.join(shares)} of the squared norm of the tokens." if shares else ""
    return Caption(description, finding, say.all)


def figure_contributions(axes: Sequence[Axes], run: Run) -> Sequence[Axes]:
    """Draw ‖α_i v_i‖ against the rank of a token's weight, coloured by its cosine with v_L, for one
    head per regime, on three axes (Figure 10).
    """
    data = run.needed("contributions")
    cosines = flat(data["cosine"])
    scale = Normalize(min(0.0, float(np.floor(10 * cosines.min(initial=0)) / 10)), 1.0)
    edges: style.Kwargs = {"markeredgecolor": "white", "markeredgewidth": 0.5}
    for axis, regime in zip(axes, data["regime"].values, strict=True):
        selected = data.sel(regime=regime)
        if not typical_head([axis], run, str(regime)):
            continue
        level = selected["contribution"].values
        ranks = np.broadcast_to(selected["rank"].values, level.shape)
        spots: style.Kwargs = {"s": 5, "cmap": COLOURS, "norm": scale, "linewidths": 0}
        axis.scatter(ranks, level, c=selected["cosine"].values, zorder=2, **spots)
        for token, mark in MARKS.items():
            x, y = (selected[f"{token}_{name}"].values for name in ("rank", "contribution"))
            axis.plot(x, y, linestyle="none", markersize=7, zorder=4, **edges, **mark)
        axis.set_yscale("log")
        axis.yaxis.set_major_locator(LogLocator(numticks=6))
        axis.yaxis.set_minor_locator(NullLocator())
        tokens = float(data.attrs["tokens"])
        style.size_axis(axis, tokens, "rank $N$ of the token (log)", few=True)
    axes[0].set_ylabel(r"contribution $\Vert\alpha_i v_i\Vert$ (log)")
    _scale(axes, scale, r"cosine with $v_L$")
    return axes


@planned(
    figure_contributions,
    "Which tokens contribute to a head?",
    3.3,
    paper="Figure 10",
    grid=(1, 3),
    group="contributions",
)
def caption_contributions(run: Run) -> Caption:
    """Return the caption of the counterpart of Figure 10."""
    data, regimes = run.needed("contributions"), run.needed("regimes")
    description = (
        "Contribution of each token, ‖α_i v_i‖, for one head of each regime (the heads of the"
        f" figure of regimes), at the last query of {run.counted('document')}. Tokens are ordered"
        " by weight: the first N ranks are the top-N selection. Colour: cosine of the token’s value"
        f" with the last token’s value v_L. {data.sizes['rank']} ranks are drawn; the sink"
        " (triangle) and the last token (star) are drawn for every document. According to the"
        " paper, the star lies above all tokens in a Retriever, between the sink and the other"
        " tokens in a Mixer, and among the other tokens in a Reset head."
    )
    say, both = Numbers(), regimes["heads"].sel(criterion="both")
    numbers = ", ".join(
        f"{say.whole(noun, float(both.sel(regime=name)))} {noun}" for name, noun in NOUNS.items()
    )
    classified, finding = int(both.sum()), ""
    if classified:
        finding = f"Of {say.counted('heads', classified, 'head')}: {numbers}. "
    places = []
    for name, noun in NOUNS.items():
        if name in data["regime"].values and flat(data["last_place"].sel(regime=name)).size:
            median_rank = median(data["last_place"].sel(regime=name))
            rank = say.place(f"place of the last token, {name}", median_rank)
            places.append(f"{rank} in the {noun.removesuffix('s')}")
    if places:
        finding += (
            f"By norm of contribution, the last token ranks {', '.join(places)} head (median over"
            f" documents, of {say.counted('tokens', int(data.attrs['tokens']), 'token')})."
        )
    return Caption(description, f"{finding}{notes(regimes)}".strip(), say.all)
