"""Claims on regimes of heads, each answered by its rule on heads made up so that the answer is
known.
"""

import numpy as np
import pytest
import xarray as xr
from support.scoreboards import TOKENS, N, tree

from geostat.verdicts.scoreboard import regimes


def heads(order: list[str], kappa: tuple[float, float, float] = (0.0, -0.1, 0.1)) -> xr.Dataset:
    """Thirty layers of one head; ten heads of each regime, in the order given."""
    regimes = ["unclassified", "retriever", "mixer", "reset"]
    label = np.repeat([regimes.index(name) for name in order], 10)[None, :, None]
    members = np.stack([(label[0] == code).sum() for code in range(4)])[None]
    level = np.array([[np.nan, 0.5, 0.5, 0.75]])[..., None] * np.ones(N.size)
    data = {
        "label": (("criterion", "layer", "head"), label),
        "heads": (("criterion", "regime"), members),
        "contribution_sink": (("layer", "head"), np.ones((30, 1))),
        **dict(zip(("kappa", "kappa_lower", "kappa_upper"), kappa, strict=True)),
        **{name: (("criterion", "regime", "n"), level) for name in ("precision", "recall")},
    }
    coords = {"layer": np.arange(30), "regime": regimes, "criterion": ["both"], "n": N}
    return xr.Dataset(data, coords=coords)


def test_regimes_in_depth_follow_one_another_or_do_not():
    as_printed = tree(heads=heads(["retriever", "reset", "mixer"]))
    assert regimes.regimes_depth(as_printed).answer == "confirmed"
    assert regimes.regimes_depth(as_printed).here.startswith(
        "by both descriptions retrievers in layer 4.5"
    )
    turned = tree(heads=heads(["mixer", "reset", "retriever"]))
    assert regimes.regimes_depth(turned).answer == "contradicted"
    two = tree(heads=heads(["retriever", "reset", "unclassified"]))
    assert regimes.regimes_depth(two).answer == "undetermined"


@pytest.mark.parametrize(
    ("kappa", "answer"),
    [
        ((0.7, 0.65, 0.75), "confirmed"),
        ((0.3, 0.1, 0.5), "undetermined"),
        ((0.1, 0.0, 0.2), "contradicted"),
    ],
)
def test_regimes_are_robust_where_two_descriptions_agree(kappa, answer):
    one = regimes.regimes(tree(heads=heads(["retriever", "reset", "mixer"], kappa)))
    assert one.answer == answer
    assert "10 retrievers, 10 mixers, 10 resets; 0 unclassified" in one.here


def test_curves_of_regimes_differ_by_more_than_modestly():
    one = regimes.regimes_curves(tree(heads=heads(["retriever", "reset", "mixer"])))
    assert one.answer == "contradicted"
    assert "Precision by up to 0.25, at N = 2; Recall by up to 0.25" in one.here
    near = heads(["retriever", "reset", "mixer"])
    for name in ("precision", "recall"):
        near[name][..., 2:] = 0.5
    assert regimes.regimes_curves(tree(heads=near)).answer == "undetermined"  # far at N = 2 only
    near["precision"][..., 1], near["recall"][..., 1] = 0.45, 0.55
    assert regimes.regimes_curves(tree(heads=near)).answer == "confirmed"
    # a size at which a regime has no mean counts for neither answer
    near["precision"][:, 3, 4], near["recall"][:, 3, 5] = np.nan, np.nan
    near["precision"][:, 2, 4] = 9.0
    some = regimes.regimes_curves(tree(heads=near))
    assert (some.answer, some.here[:26]) == ("confirmed", "Precision by up to 0.00, a")
    never = near.assign(recall=near["recall"] * np.nan)
    assert regimes.regimes_curves(tree(heads=never)).answer == "undetermined"
    few = tree(heads=heads(["retriever", "reset", "unclassified"]))
    assert regimes.regimes_curves(few).answer == "undetermined"


def described(without_sink, without_last) -> xr.DataTree:
    """Ten heads of each regime, by alignment; their norms relative to that of s(N), (regime, n)."""
    names = ["retriever", "reset", "mixer"]
    labelled = heads(names).assign_coords(criterion=["alignment"])
    labelled.attrs["thresholds"] = {"small": 4, "large": 0.5}
    by_head = [
        np.repeat(np.asarray(part, dtype=float), 10, axis=0)[None, :, None]
        for part in (np.full((3, N.size), 2.0), without_sink, without_last)
    ]
    parts = ("", "_without_sink", "_without_last")
    dims = ("document", "layer", "head", "n")
    capture = xr.Dataset(
        {f"representative_norm{part}": (dims, at) for part, at in zip(parts, by_head, strict=True)},
        coords={"n": N, "tokens": ("layer", np.full(30, TOKENS)), "position": np.arange(TOKENS)},
    )
    return xr.DataTree.from_dict({"/capture": capture, "/heads": labelled})


def test_norms_of_regimes_are_those_of_figure_7_or_not():
    one, meets = np.ones(N.size), np.where(N == 64, 0.9, 0.2)
    as_printed = regimes.regimes_norms(described([one, 0 * one, one], [0 * one, one, meets]))
    assert as_printed.answer == "confirmed"
    assert as_printed.here == (
        "as described, of those told by alignment: 10 of 10 retrievers, 10 of 10 resets, 10 of 10"
        " mixers"
    )
    turned = regimes.regimes_norms(described([0 * one, 0 * one, one], [one, one, meets]))
    assert turned.answer == "contradicted"
    parts = regimes.regimes_norms(described([one, 0 * one, one], [0 * one, one, 1.1 - meets]))
    assert parts.here.endswith("0 of 10 mixers")


def test_contributions_of_regimes_are_those_of_figure_10_or_not():
    names = ["retriever", "reset", "mixer"]
    order = {"sink": [1, 5, 5], "last": [5, 1, 3], "rest_total": [0, 0, 0]}

    def answered(**changed: list[int]):
        data = heads(names).assign_coords(criterion=["alignment"])
        for name, level in (order | changed).items():
            data[f"contribution_{name}"] = ("layer", "head"), np.repeat(level, 10)[:, None] * 1.0
        capture = xr.Dataset(coords={"tokens": ("layer", np.full(30, 12))})
        return regimes.regimes_sizes(xr.DataTree.from_dict({"/capture": capture, "/heads": data}))

    assert answered().answer == "confirmed"
    assert answered(last=[5, 6, 3]).answer == "contradicted"
    # ten content tokens of 4 each: more than a Mixer's last token, less than a Retriever's
    assert answered(rest_total=[40, 40, 40]).answer == "contradicted"
    assert answered(rest_total=[40, 40, 40]).here.endswith("0 of 10 mixers")
