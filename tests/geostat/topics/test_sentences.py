"""Five paragraphs of a report: numbers are those of the datasets; missing numbers are n/a."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from support.spine import Finished

import geostat as gs
from geostat.topics import norms, separability, similarity, weights
from geostat.topics.claims import read_tolerances
from geostat.topics.records import quartiles, two_decimals
from geostat.topics.summary import READING, summarise
from reports.text.number import rounded
from theory.statements import catalogue

NUMBER = re.compile(r"-?\d[\d,]*\.?\d*")
FITS = ("norms", "similarity", "weights")


def only(tree: xr.DataTree, *names: str) -> xr.DataTree:
    return xr.DataTree.from_dict({f"/{name}": tree[name].to_dataset() for name in names})


def sentences(tree: xr.DataTree, layers: str = "") -> list[str]:
    every, start = tree["summary"].attrs["sentences"], f"{layers}: " if layers else ""
    paragraphs = [text.removeprefix(start) for text in every if text.startswith(start)]
    assert len(paragraphs) == 5
    for sentence in paragraphs:
        assert not re.search(r"\bnan\b|\binf\b", sentence, re.IGNORECASE), sentence
        assert sentence.endswith(".")
        assert "\n" not in sentence
    for number, sentence in enumerate(paragraphs[1:4], start=1):
        assert re.match(rf"Assumption {number}\b", sentence)
    return paragraphs


def numbers(text: str) -> list[float]:
    return [float(number.replace(",", "")) for number in NUMBER.findall(text)]


def spread(values: np.ndarray, show: Callable[[float], str], over: str = "") -> str:
    low, middle, high = np.quantile(values, [0.25, 0.5, 0.75])
    count = f" {over}" if over else ""
    return f"{show(middle)}{count} (interquartile range {show(low)} to {show(high)})"


def percent(share: float) -> str:
    return f"{100 * share:.{0 if share >= 0.0995 or share == 0 else 1}f}%"


def test_the_paragraph_on_separability_quotes_the_capture(finished: Finished):
    text = sentences(finished.tree)[0]
    capture, null = finished.tree["queries"].to_dataset(), finished.tree["null"].to_dataset()
    by_document = {
        name: capture[name].values.astype(float).mean(axis=(1, 2))
        for name in ("precision", "recall")
    }
    mean = {name: values.mean(axis=0) for name, values in by_document.items()}
    error = {name: values.std(axis=0, ddof=1) / np.sqrt(3) for name, values in by_document.items()}
    n = capture["n"].values
    assert n[1] == 2
    lowest = 1 + int(mean["precision"][1:-1].argmin())
    match = re.search(
        r"Precision is ([\d.]+) ± ([\d.]+) and Recall is ([\d.]+) ± ([\d.]+) at N = 2 selected"
        r" tokens \(mean of 16 heads in 3 documents of 40 tokens, at the last 16 queries, ± one"
        r" standard error over documents\)\. .* Precision is lowest at N = (\d+): ([\d.]+) ±"
        r" ([\d.]+), with Recall ([\d.]+) ± ([\d.]+)\.",
        text,
    )
    assert match is not None, text
    assert int(match[5]) == n[lowest]
    expected = [
        value for name in mean for at in (1, lowest) for value in (mean[name][at], error[name][at])
    ]
    for written, value in zip([match[k] for k in (1, 2, 6, 7, 3, 4, 8, 9)], expected, strict=True):
        digits = len(written.partition(".")[2])
        assert float(written) == pytest.approx(value, abs=0.6 * 10.0**-digits)
    drawn = null["precision"].sel(n=2).astype(float).mean(["document", "layer", "head"])
    shown = {name: f"{float(drawn.sel(null=name)):.2f}" for name in null["null"].values}
    assert (
        f" At N = 2, Precision of the null baselines is {shown['random_selection']} for randomly"
        f" selected tokens, {shown['random_directions']} for value vectors of random direction,"
        f" {shown['permuted_values']} for values permuted among content tokens,"
        f" {shown['permuted_sink']} for values permuted so, with a random direction of the sink,"
        f" {shown['permuted_octaves']} for values permuted within octaves of rank and"
        f" {shown['other_head']} for the values of another KV head. Compared with values permuted"
        " among content tokens, Precision is "
    ) in text


def test_the_paragraph_on_norms_quotes_the_fits(finished: Finished):
    text, fits = sentences(finished.tree)[1], finished.tree["norms"].to_dataset()
    cv, profile, position, lam = (
        fits[name].values for name in ("cv_token", "cv_profile", "cv_position", "lam")
    )
    for words in (
        "within a document, the median coefficient of variation (CV) over 8 KV heads is"
        f" {spread(cv, percent)}, and the CV is at most 5% in {(cv <= 0.05).sum()} of them",
        "The paper reports 2% to 3% for norms averaged over documents first; here this median CV is"
        f" {spread(profile, percent)}, and {spread(position, percent)} in the limit",
        f"has median {spread(lam, two_decimals, 'over 8 KV heads')}; λ ≤ 0.5 in"
        f" {(lam <= 0.5).sum()} of them. The strongest functional sink (norm at most 0.5 times the"
        " median, attention weight at least 10/T) is at position 0 in",
    ):
        assert words in text


def test_the_paragraph_on_similarity_quotes_the_fits(finished: Finished):
    text, fits = sentences(finished.tree)[2], finished.tree["similarity"].to_dataset()
    mae, rival = (fits["mae_by_lag"].sel(gram=gram).values for gram in ("exponential", "offset"))
    negative = 100 * fits["negative_fraction"].values.mean()
    better = [
        (fits["gain_over_constant_p"].sel(gram=gram).values <= 0.05).sum()
        for gram in ("exponential", "offset")
    ]
    infeasible = (~fits["feasible"].sel(gram="exponential").values.astype(bool)).sum()
    for words in (
        f"has median {spread(mae, two_decimals, 'over 8 KV heads')}, compared with an average of"
        " 0.09 in the paper",
        f"and is at most 0.10 in {(mae <= 0.1).sum()} of them",
        "with one more parameter, has median error"
        f" {spread(rival, lambda x: rounded(x, digits=2).plain)}.",
        "On held-out documents exponential decay predicts cosines better than a constant does in"
        f" {better[0]} KV heads, and decay to a constant in {better[1]} (paired tests at 95%).",
        f"{negative:.0f}% of all cosines are negative",
        f"In {infeasible} of 8 KV heads the Gram matrix",
    ):
        assert words in text


def test_the_paragraph_on_weights_quotes_the_fits(finished: Finished):
    text, fits = sentences(finished.tree)[3], finished.tree["weights"].to_dataset()
    shared, separate = (
        int(fits["form_oscillation_identified"].sel(form=form).sum())
        for form in ("shared", "separate")
    )
    verdicts = finished.tree["verdicts"].to_dataset()
    near = verdicts["answer_head"].sel(claim_head="weights.shape_position").values == 1
    oscillates = fits["form_oscillation_identified"].values.astype(bool).any(axis=0)
    sink = fits["p_sink_lower"].values > fits["p_base_upper"].values
    every = oscillates & (fits["t1"].values > 8) & fits["growth_identified"].values & sink
    rival, lowest = list(fits["rival"].values), fits["rival_loss_held_out"].values.argmin(0)
    best = {form: (lowest == rival.index(form)).sum() for form in ("shared", "power_law")}
    clear = {form: int(fits["rival_clearly_lowest"].sel(rival=form).sum()) for form in best}
    for words in (
        "that is common to all documents has median"
        f" {spread(fits['common_share'].values, two_decimals, 'over 16 heads')}. Phases",
        f"explain a median share of {spread(fits['r2_document'].values, two_decimals)}.",
        "towards the last token is identified above the noise in"
        f" {int(fits['growth_identified'].sum())} of",
        f"is identified in {shared} of them",
        f"an oscillation with a separate amplitude in {separate}",
        "The misfit of the four phases is within a factor of 2 (at 95%) in"
        f" {near.sum()} of 16 heads. These show an oscillation in {(near & oscillates).sum()}, a"
        f" plateau (T₁ > 8) in {(near & (fits['t1'].values > 8)).sum()}, growth in",
        f"above the plateau's in {(near & sink).sum()}, and all four in {(near & every).sum()}.",
        "In 16 heads 6 forms are compared by their loss on held-out documents.",
        f"the printed form in {best['shared']} (clearly in {clear['shared']})",
        f"to the last token in {best['power_law']} (clearly in {clear['power_law']})",
        "The sink receives"
        f" {spread(fits['p_sink'].values, percent, 'of the attention in the median head')}.",
    ):
        assert words in text


def test_user_tolerances_change_the_counts_in_the_paragraphs(finished: Finished, tmp_path: Path):
    similarity = finished.tree["similarity"].to_dataset().sel(gram="exponential")
    cv, mae = (
        float(np.sort(values.values.ravel())[2:4].mean().round(5))  # between the third and fourth
        for values in (finished.tree["norms"]["cv_token"], similarity["mae_by_lag"])
    )
    file = tmp_path / "tolerances.toml"
    file.write_text(
        f"[norms.cv]\nat_most = {cv}\n[similarity.exponential]\nat_most = {mae}\n", encoding="utf-8"
    )
    env = gs.confront(
        finished.tree,
        only(finished.tree, *FITS),
        editions=("sharp",),
        points=3,
        swap=False,
        tolerances=file,
    )
    _, first, second, *_ = sentences(env)
    assert f"and the CV is at most {100 * cv:g}% in 3 of them" in first
    assert f"and is at most {mae:g} in 3 of them" in second


def test_the_paragraph_on_bounds_quotes_the_confrontation(finished: Finished):
    text, summary = sentences(finished.tree)[4], finished.tree["summary"].to_dataset()
    text, untrained, answer = text.partition(" Untrained model: ")
    assert untrained
    assert answer.startswith(("holds (", "fails (", "undetermined ("))
    expected = [int(summary["recall_cells"].max())]
    for edition, gram in (
        ("printed", "exponential"),
        ("sharp", "exponential"),
        ("sharp", "offset"),
        ("sharp", "rank"),
    ):
        means = summary["recall_by_range"].sel(edition=edition, gram=gram)
        for measure, scale, digits in (("inside", 100, 0), ("score", 1, 2)):
            for label in summary["size_range"].values:
                of_range = means.sel(size_range=label)
                if not np.isfinite(of_range.sel(measure=measure)):
                    continue
                pair = (float(of_range.sel(measure=name)) for name in (measure, f"drawn_{measure}"))
                expected += [round(scale * value, digits) for value in pair]
                expected += numbers(label)
    width_factor_level = [0, 1, 40, 95]
    assert numbers(text) == pytest.approx(expected + width_factor_level)


def test_gram_matrices_that_are_not_psd_are_counted(finished: Finished):
    groups = finished.groups()
    groups["/similarity"]["feasible"].loc[{"gram": "exponential"}] = False
    groups["/similarity"]["rho0"][0, 0] = np.nan
    text = summarise(xr.DataTree.from_dict(groups)).attrs["sentences"][2]
    assert "In 7 of 7 KV heads the Gram matrix of the fitted exponential" in text


@pytest.mark.slow
def test_a_run_without_baselines_and_of_one_document(followup: xr.DataTree):
    text = sentences(followup)
    assert "1 document of 40 tokens, at the last 16 queries)" in text[0]
    assert "±" not in text[0]
    assert "chance" not in text[0]
    assert "The sink receives" in text[3]
    assert "clearly" not in text[4]
    assert " the interval score is " in text[4]


def test_layers_whose_windows_hide_the_sink(windowed: xr.DataTree):
    _, norms, similarity, weights, bounds = sentences(windowed, "Layers that see 24 tokens, 2 of 4")
    for text in (norms, weights):
        assert ". The sink at position 0 is not visible to the last token" in text
    assert similarity.endswith("No KV head has both a fitted decay and a visible sink.")
    assert "n/a" not in bounds
    assert int(windowed["summary"]["precision_cells"].sel(part=24).max()) > 0


def without_estimates(values: xr.DataArray) -> xr.DataArray:
    """Return the values with NaN for numbers and False for truth values."""
    kind = values.dtype.kind
    return values * np.nan if kind == "f" else values & False if kind == "b" else values


def test_a_run_in_which_no_head_could_be_fitted(finished: Finished):
    groups = {f"/{name}": finished.tree[name].to_dataset() for name in ("capture", "null", *FITS)}
    groups |= {f"/{name}": groups[f"/{name}"].map(without_estimates) for name in FITS}
    run = xr.DataTree.from_dict(groups)
    text = sentences(gs.confront(run, only(run, *FITS), points=3, swap=False))
    for sentence in text[1:]:
        assert "n/a" in sentence or "No bounds could be evaluated" in sentence, sentence
    assert text[4].startswith("Bounds on expected Recall are compared with 0 measured values")


def degenerate_fits(kind: str, out: Path) -> xr.DataTree:
    """Return fits of tensors without values, without a sink norm, or with equal weights."""
    random = np.random.default_rng(0)
    alpha, values = random.dirichlet(np.ones(40), (3, 1, 4)), random.normal(size=(3, 1, 2, 40, 8))
    if kind == "no values":
        values[:] = 0
    elif kind == "no values but the sink's":
        values[:, :, :, 1:] = 0
        values[:, 0, 0, 0, 0] += np.arange(1, 4) * 1e-3
    elif kind == "a sink of no length":
        values[:, :, :, 0] = 0
    elif kind == "even weights":
        alpha[:] = 1 / 40
    alpha[:, 0, 0, :2] += np.arange(3)[:, None] * np.array([1e-6, -1e-6])  # documents differ
    return gs.fit(gs.from_tensors(alpha, values, n="1,2,8", null=False, out=out))


EXPECTED = {
    "no values": [
        "(no estimate: the mean norm is 0",
        "The sink's λ has no estimate (the mean norm is 0",
        "(no estimate: no document has a finite cosine)",
        "a cosine with the sink (no document has a finite cosine).",
        " The sink receives ",
    ],
    "no values but the sink's": ["The sink's λ has no estimate (the mean norm is 0"],
    "a sink of no length": [
        "has median 0.00",
        "a cosine with the sink (the sink is visible, but its cosines are not finite).",
    ],
    "even weights": [" over 4 heads (", "The sink receives 2.5%"],
}


@pytest.mark.parametrize("kind", EXPECTED)
def test_a_missing_estimate_has_its_reason(tmp_path: Path, kind: str):
    fits, tolerances = degenerate_fits(kind, tmp_path), read_tolerances()
    text = " ".join(
        topic.sentence(fits, xr.Dataset(), tolerances) for topic in (norms, similarity, weights)
    )
    assert "not visible" not in text
    for words in EXPECTED[kind]:
        assert words in text


@pytest.mark.parametrize(
    ("sizes", "seen", "quoted"), [([1, 40], 40, False), ([1, 2], 40, True), ([27, 40], 24, False)]
)
def test_only_sizes_within_a_window_are_quoted(
    finished: Finished, sizes: list[int], seen: int, quoted: bool
):
    capture = finished.tree["capture"].to_dataset().assign_coords(tokens=("layer", [seen] * 4))
    run = only(finished.tree, "queries").assign({"capture": xr.DataTree(capture)})
    summary = finished.tree["summary"].to_dataset().sel(n=sizes)
    text = separability.sentence(run, summary, {})
    assert ("no other selection size N was measured" not in text) == quoted


def test_the_errata_of_the_summary_are_those_of_the_catalogue(finished: Finished):
    errata = json.loads(finished.tree["summary"].attrs["errata"])
    known = {entry.number: entry for entry in catalogue.errata()}
    assert [entry["number"] for entry in errata] == list(READING)
    for entry in errata:
        for name in ("title", "printed", "true"):
            assert entry[name] == getattr(known[entry["number"]], name)


def test_quartiles_ignore_values_that_are_not_finite():
    assert quartiles(np.array([np.nan, 4.0, 1.0, np.inf, 2.0, 3.0, 5.0])) == (3.0, 2.0, 4.0, 5)
    middle, _, _, count = quartiles(np.array([np.nan]))
    assert np.isnan(middle)
    assert count == 0
