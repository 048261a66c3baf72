"""Counterparts of the paper's Figures 9 and 10: value vectors as points on a sphere, and
contributions token by token.

Source: arXiv 2602.01893, §A.3, §4.2. Each function draws on given axes and returns them; it neither
shows nor saves.
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
from reports.figures.experiments import REGIMES
from reports.run import Run
from reports.statistics import flat

Points = NDArray[np.float64]
AZIMUTH, ELEVATION = np.radians(-35.0), np.radians(28.0)
"""Where the sphere is looked at from."""
_TOWARDS: Final = np.array(
    [
        np.cos(ELEVATION) * np.cos(AZIMUTH),
        np.cos(ELEVATION) * np.sin(AZIMUTH),
        np.sin(ELEVATION),
    ]
)
"""From the middle of the sphere to where it is looked at from."""
COLOURS: Final = "cividis"
MARKS: Final[dict[str, dict[str, Any]]] = {
    "sink": {"marker": "^", "color": style.VERMILLION, "label": "sink (position 0)"},
    "last": {"marker": "*", "color": style.BLACK, "label": "last token"},
}
AXES_OF: Final = {
    "cosines": ("$v_L$", r"$v_0^\perp$", "rest"),
    "components": ("1st", "2nd", "3rd"),
}
"""What the three axes of the sphere are called."""


def _seen(points: Points) -> tuple[Points, Points]:
    """Points (…, 3) as they are seen: in the plane of the picture, (…, 2), and their depth, which
    is positive in front of the sphere's middle.
    """
    x, y, z = np.moveaxis(points, -1, 0)
    right = -np.sin(AZIMUTH) * x + np.cos(AZIMUTH) * y
    towards = np.cos(AZIMUTH) * x + np.sin(AZIMUTH) * y
    up = np.cos(ELEVATION) * z - np.sin(ELEVATION) * towards
    return np.stack([right, up], axis=-1), points @ _TOWARDS


def _net(half: bool) -> Iterator[Points]:
    """Circles on the sphere, or on its upper half: of equal height, and from pole to pole."""
    turn = np.linspace(0, 2 * np.pi, 121)
    for height in np.radians([0, 30, 60] if half else [-60, -30, 0, 30, 60]):
        flat_circle = np.cos(height) * np.array([np.cos(turn), np.sin(turn)])
        yield np.stack([*flat_circle, np.full(turn.size, np.sin(height))], axis=-1)
    rise = np.linspace(0, np.pi, 61) if half else turn
    right, up = np.linalg.svd(_TOWARDS[None])[2][1:]  # the outline is at right angles to the view
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
            (right, up), depth = _seen(circle)[0].T, _seen(circle)[1]
            for shown, colour in ((depth >= -1e-9, "#bdbdbd"), (depth < -1e-9, "#e6e6e6")):
                parts = (np.where(shown, right, np.nan), np.where(shown, up, np.nan))
                axis.plot(*parts, color=colour, linewidth=0.6, zorder=1)
        place, depth = _seen(data["point"].isel(panel=panel).values)
        for shown, alpha, above in ((depth < 0, 0.35, 2), (depth >= 0, 0.9, 3)):
            axis.scatter(
                place[shown, 0],
                place[shown, 1],
                c=data["position"].values[shown],
                s=7,
                cmap=COLOURS,
                norm=scale,
                alpha=alpha,
                linewidths=0,
                zorder=above,
            )
        for one, index in (("sink", 0), ("last", -1)):
            axis.plot(*place[index], linestyle="none", markersize=8, zorder=5, **MARKS[one])
        for name, end in zip(names, np.eye(3), strict=True):
            _arrow(axis, name, end)
        axis.set(
            xticks=[],
            yticks=[],
            aspect="equal",
            xlim=(-1.35, 1.35),
            ylim=(-0.72 if half else -1.35, 1.3),
        )
        axis.set_title(str(data["name"].values[panel]))
        axis.set_axis_off()
    for axis in list(axes)[data.sizes["panel"] :]:
        axis.set_axis_off()
    _scale(axes, scale, "position $i$")
    return axes


def _arrow(axes: Axes, name: str, end: Points) -> None:
    """An axis of the sphere, from its middle to beyond its surface, with its name."""
    tip, beyond = (tuple(_seen(reach * end)[0].tolist()) for reach in (1.16, 1.3))
    axes.annotate(
        "",
        tip,
        (0, 0),
        arrowprops={"arrowstyle": "-|>", "color": style.GREY, "linewidth": 0.9, "shrinkA": 0},
        zorder=4,
    )
    axes.annotate(name, beyond, ha="center", va="center", color=style.BLACK)


def _scale(axes: Sequence[Axes], scale: Normalize, label: str) -> None:
    """One scale of colours for all panels, and below them one legend of the marks."""
    across = style.stacked(axes)
    axes[0].figure.colorbar(
        ScalarMappable(scale, COLOURS),
        ax=list(axes),
        label=label,
        pad=0.02,
        fraction=0.05 if across else 0.03,
    )
    drawn = [axis for axis in axes if axis.get_legend_handles_labels()[0]]
    if drawn:
        handles, labels = drawn[0].get_legend_handles_labels()
        entries = dict(zip(labels, handles, strict=True))
        axes[0].figure.legend(
            entries.values(), entries.keys(), loc="outside lower center", ncols=len(entries)
        )


def figure_contributions(axes: Sequence[Axes], run: Run) -> Sequence[Axes]:
    """Draw ‖α_i v_i‖ against the rank of a token's weight, coloured by its cosine with v_L, of one
    head a regime, on three axes (Figure 10).
    """
    data, regimes = run.needed("contributions"), run.needed("regimes")
    cosines = flat(data["cosine"])
    scale = Normalize(min(0.0, float(np.floor(10 * cosines.min(initial=0)) / 10)), 1.0)
    for axis, regime in zip(axes, data["regime"].values, strict=True):
        at, of = data.sel(regime=regime), regimes.sel(regime=regime)
        word, layer = REGIMES[str(regime)][0], int(of["typical_layer"])
        if layer < 0:
            axis.set_title(f"{word}: none")
            style.nothing(axis, "no head of this regime")
            continue
        axis.set_title(f"{word}: {run.name_of(layer, int(of['typical_head']))}")
        axis.scatter(
            np.broadcast_to(at["rank"].values, at["contribution"].shape),
            at["contribution"].values,
            c=at["cosine"].values,
            s=5,
            cmap=COLOURS,
            norm=scale,
            linewidths=0,
            zorder=2,
        )
        for one, mark in MARKS.items():
            axis.plot(
                at[f"{one}_rank"].values,
                at[f"{one}_contribution"].values,
                linestyle="none",
                markersize=7,
                markeredgecolor="white",
                markeredgewidth=0.5,
                zorder=4,
                **mark,
            )
        axis.set_yscale("log")
        axis.yaxis.set_major_locator(LogLocator(numticks=6))
        axis.yaxis.set_minor_locator(NullLocator())
        style.size_axis(axis, float(data.attrs["tokens"]), "rank $N$ of the token (log)")
        ticks = [power for power in (1, 8, 64, 512, 4096) if power <= data.attrs["tokens"]]
        axis.set_xticks(ticks, [f"{tick:,}" for tick in ticks])
        axis.set_xticks([], minor=True)
    axes[0].set_ylabel(r"contribution $\Vert\alpha_i v_i\Vert$ (log)")
    _scale(axes, scale, r"cosine with $v_L$")
    return axes
