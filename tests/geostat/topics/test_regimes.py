"""Statements on head regimes, tested by their rules on synthetic heads with known answers."""

import re

import numpy as np
import pytest
import xarray as xr
from support.scoreboards import TOKENS, N, tree

from geostat.analyses.head_regime_rules import REGIMES, Features, by_alignment
from geostat.statistics.proportion import wilson
from geostat.topics import regimes

PRINTED = ["retriever", "reset", "mixer"]
"""Regimes in the order of their depth."""


def heads(order: list[str], kappa: tuple[float, float, float] = (0.0, -0.1, 0.1)) -> xr.Dataset:
    """Return thirty layers of one head, ten heads of each regime in this order."""
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


@pytest.mark.parametrize(
    ("order", "lower", "answer"),
    [
        (PRINTED, 0.1, "confirmed"),
        (["mixer", "reset", "retriever"], 0.1, "contradicted"),
        (["mixer", "reset", "retriever"], -0.1, "undetermined"),  # criteria agree by chance
        (["retriever", "reset", "unclassified"], 0.1, "undetermined"),
    ],
)
def test_the_order_of_regimes_in_depth(order: list[str], lower: float, answer: str):
    finding = regimes.regimes_depth(tree(heads=heads(order, kappa=(0.3, lower, 0.5))))
    assert finding.answer == answer
    if order == PRINTED:
        assert finding.here.startswith(
            "mean layer by both criteria: retrievers 4.5 ± 1.0 (10 heads)"
        )


@pytest.mark.parametrize(
    ("kappa", "answer"),
    [
        ((0.7, 0.65, 0.75), "confirmed"),
        ((0.3, 0.1, 0.5), "undetermined"),
        ((0.1, 0.0, 0.2), "contradicted"),
    ],
)
def test_regimes_are_confirmed_if_the_two_classifications_agree(kappa, answer):
    finding = regimes.regimes(tree(heads=heads(PRINTED, kappa)))
    assert finding.answer == answer
    assert "10 retrievers, 10 mixers, 10 resets; 0 unclassified" in finding.here


def test_an_agreement_of_one_label_is_undetermined():
    finding = regimes.regimes(tree(heads=heads(PRINTED, (0.0, 0.0, 0.0))))
    assert finding.answer == "undetermined"


def test_differences_between_curves_of_regimes():
    finding = regimes.regimes_curves(tree(heads=heads(PRINTED)))
    assert finding.answer == "contradicted"
    assert "Precision differs by up to 0.25, at N = 2; Recall differs by up to 0.25" in finding.here
    near = heads(PRINTED)
    for name in ("precision", "recall"):
        near[name][..., 2:] = 0.5  # a large difference at N = 2 only
    assert regimes.regimes_curves(tree(heads=near)).answer == "undetermined"
    near["precision"][..., 1], near["recall"][..., 1] = 0.45, 0.55
    assert regimes.regimes_curves(tree(heads=near)).answer == "confirmed"
    # A size without a mean in some regime is ignored.
    near["precision"][:, 3, 4], near["recall"][:, 3, 5] = np.nan, np.nan
    near["precision"][:, 2, 4] = 9.0
    finding = regimes.regimes_curves(tree(heads=near))
    assert finding.answer == "confirmed"
    assert finding.here.startswith("Precision differs by up to 0.00, a")
    missing = near.assign(recall=near["recall"] * np.nan)
    few = heads(["retriever", "reset", "unclassified"])
    for untestable in (missing, few):
        assert regimes.regimes_curves(tree(heads=untestable)).answer == "undetermined"


ONES, ZEROS = np.ones(N.size), np.zeros(N.size)
CONVERGING = np.where(N == 64, 0.9, 0.2)
COUNTED = "among heads classified by alignment, as described: "


@pytest.mark.parametrize(
    ("without_sink", "without_last", "answer", "described"),
    [
        ([ONES, ZEROS, ONES], [ZEROS, ONES, CONVERGING], "not testable here", (10, 10, 10)),
        ([ZEROS, ZEROS, ONES], [ONES, ONES, CONVERGING], "contradicted", (0, 10, 10)),
        ([ONES, ZEROS, ONES], [ZEROS, ONES, 1.1 - CONVERGING], "contradicted", (10, 10, 0)),
    ],
    ids=["as printed", "reverse", "diverging"],
)
def test_norms_of_regimes_are_compared_with_figure_7(without_sink, without_last, answer, described):
    """Norms are relative to ‖s(N)‖, (regime, n)."""
    labelled = heads(PRINTED).assign_coords(criterion=["alignment"])
    labelled.attrs["thresholds"] = {"small": 4, "large": 0.5}
    norms = {"": np.full((3, N.size), 2.0)}
    norms |= {"_without_sink": without_sink, "_without_last": without_last}
    data = {
        f"representative_norm{part}": (
            ("document", "layer", "head", "n"),
            np.repeat(np.asarray(by_regime), 10, axis=0)[None, :, None],
        )
        for part, by_regime in norms.items()
    }
    coords = {"n": N, "tokens": ("layer", np.full(30, TOKENS)), "position": np.arange(TOKENS)}
    groups = {"/capture": xr.Dataset(data, coords=coords), "/heads": labelled}
    finding = regimes.regimes_norms(xr.DataTree.from_dict(groups))
    assert finding.answer == answer
    counts = zip(described, ("retrievers", "resets", "mixers"), strict=True)
    assert finding.here == COUNTED + ", ".join(f"{count} of 10 {name}" for count, name in counts)


def test_most_heads_with_random_weights_and_values_are_as_in_figures_7_and_10():
    """So neither confirms anything about heads that are classified by alignment."""
    random = np.random.default_rng(0)
    heads, dimension = 800, 16
    sizes = np.array([1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64])
    mean = random.normal(size=(heads, 1, dimension)) * random.uniform(0, 1.5, (heads, 1, 1))
    values = mean + random.normal(size=(heads, TOKENS, dimension))
    values[:, 0] *= random.uniform(0.05, 1, (heads, 1))
    logits = random.normal(size=(heads, TOKENS)) * random.uniform(0.5, 2, (heads, 1))
    logits[:, 0] += random.exponential(4, heads)
    logits[:, -1] += random.exponential(2, heads)
    contributions = np.exp(logits - logits.max(axis=1, keepdims=True))[..., None] * values
    order = np.argsort(-logits, axis=1)
    sums = np.take_along_axis(contributions, order[..., None], axis=1).cumsum(axis=1)[:, sizes - 1]
    rank = np.argsort(order, axis=1)
    norms, cosines = {"": np.linalg.norm(sums, axis=-1)}, {}
    for name, token in (("sink", 0), ("last", TOKENS - 1)):
        inside = (rank[:, token, None] < sizes)[..., None]
        without = sums - inside * contributions[:, token, None]
        norms[f"_without_{name}"] = np.linalg.norm(without, axis=-1)
        unit = values[:, token] / np.linalg.norm(values[:, token], axis=-1, keepdims=True)
        cosines[name] = np.einsum("hnd,hd->hn", sums, unit) / norms[""]
    features = Features.of(cosines["sink"][None], cosines["last"][None], sizes, np.array([TOKENS]))
    data = {
        f"representative_norm{part}": (("document", "layer", "head", "n"), values[None, None])
        for part, values in norms.items()
    }
    sizes_of = np.linalg.norm(contributions, axis=-1)
    parts = {"sink": sizes_of[:, 0], "last": sizes_of[:, -1]}
    parts["rest_total"] = sizes_of[:, 1:-1].sum(axis=1)
    labels = xr.Dataset(
        {
            "label": (("criterion", "layer", "head"), by_alignment(features)[None]),
            **{f"contribution_{n}": (("layer", "head"), part[None]) for n, part in parts.items()},
        },
        coords={"criterion": ["alignment"], "regime": list(REGIMES)},
        attrs={"thresholds": {"small": 4, "large": 0.5}},
    )
    coords = {"n": sizes, "tokens": ("layer", [TOKENS]), "position": np.arange(TOKENS)}
    groups = {"/capture": xr.Dataset(data, coords=coords), "/heads": labels}
    shares = []
    for statement in (regimes.regimes_norms, regimes.regimes_sizes):
        finding = statement(xr.DataTree.from_dict(groups))
        assert finding.answer == "not testable here"
        found = np.array(re.findall(r"(\d+) of (\d+) \w+s", finding.here), dtype=float).T
        shares.append(found[0] / found[1])
        within = wilson(*found).lower > 0.5
        assert within[:2].all(), finding
    assert shares[0].min() > 0.5
    assert [f"{share:.0%}" for share in shares[1][:2]] == ["61%", "95%"]  # quoted by the remark
    assert all(share in finding.why for share in ("61%", "95%"))


@pytest.mark.parametrize(
    ("sink", "last", "rest", "answer", "mixers"),
    [
        ([1, 5, 5], [5, 1, 3], 0, "not testable here", 10),
        ([1, 5, 5], [5, 6, 3], 0, "contradicted", 10),
        # Ten content tokens contribute 4 each: more than a Mixer's last token, less than a
        # Retriever's.
        ([1, 5, 5], [5, 1, 3], 40, "contradicted", 0),
    ],
)
def test_contributions_of_regimes_are_compared_with_figure_10(sink, last, rest, answer, mixers):
    data = heads(PRINTED).assign_coords(criterion=["alignment"])
    for name, level in (("sink", sink), ("last", last), ("rest_total", [rest] * 3)):
        data[f"contribution_{name}"] = ("layer", "head"), np.repeat(level, 10)[:, None] * 1.0
    capture = xr.Dataset(coords={"tokens": ("layer", np.full(30, 12))})
    finding = regimes.regimes_sizes(xr.DataTree.from_dict({"/capture": capture, "/heads": data}))
    assert finding.answer == answer
    assert finding.here.endswith(f"{mixers} of 10 mixers")
