"""Five sentences, whatever the run is: their numbers are those of the datasets, and what is
missing reads n/a.
"""

import json
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from support.spine import Finished, run_tree

import geostat as gs
from geostat.verdicts import sentences as module
from geostat.verdicts.errata import READING
from geostat.verdicts.sentences import summarise
from geostat.verdicts.tolerances import read_tolerances
from geostat.verdicts.words import quartiles
from reports.text.number import rounded
from theory.statements import catalogue

NUMBER = re.compile(r"-?\d[\d,]*\.?\d*")


def concluded(run: xr.DataTree) -> xr.DataTree:
    """A run with its fits and its confrontation."""
    fits = gs.fit(run)
    env = gs.confront(run, fits, points=8)
    return joined(run, fits, env)


def joined(*trees: xr.DataTree) -> xr.DataTree:
    groups = {f"/{name}": tree[name].to_dataset() for tree in trees for name in tree.children}
    whole = xr.DataTree.from_dict(groups)
    whole.attrs = dict(trees[0].attrs)
    return whole


def sentences(tree: xr.DataTree) -> list[str]:
    found = tree["summary"].attrs["sentences"]
    assert len(found) == 5
    for sentence in found:
        assert not re.search(r"\bnan\b|\binf\b", sentence, re.IGNORECASE), sentence
        assert sentence.endswith(".")
        assert "\n" not in sentence
    assert [sentence.split(",")[0].split("(")[0].strip() for sentence in found[1:4]] == [
        f"Assumption {k}" for k in (1, 2, 3)
    ]
    return list(found)


def numbers(text: str) -> list[float]:
    return [float(found.replace(",", "")) for found in NUMBER.findall(text)]


def test_the_first_sentence_says_what_the_capture_holds(finished: Finished):
    text = sentences(finished.tree)[0]
    capture, null = finished.tree["queries"].to_dataset(), finished.tree["null"].to_dataset()
    mean = {
        name: capture[name].values.astype(float).mean(axis=(0, 1, 2))
        for name in ("precision", "recall")
    }
    error = {
        name: capture[name].values.astype(float).mean(axis=(1, 2)).std(axis=0, ddof=1) / np.sqrt(3)
        for name in mean
    }
    n = capture["n"].values
    assert n[1] == 2
    lowest = 1 + int(mean["precision"][1:-1].argmin())
    said = re.search(
        r"the N = 2 tokens .* make up ([\d.]+) ± ([\d.]+) of the tokens .*\(Precision\), and"
        r" ([\d.]+) ± ([\d.]+) of them lie nearer .*\(Recall\); "
        r"Precision is lowest at N = (\d+), ([\d.]+) ± ([\d.]+), where Recall is ([\d.]+) ±"
        r" ([\d.]+) "
        r"\(mean of 16 heads in 3 documents of 40 tokens, at the last 16 queries, ± one standard"
        r" error over documents\)",
        text,
    )
    assert said is not None, text
    assert int(said[5]) == n[lowest]
    expected = [
        value for name in mean for at in (1, lowest) for value in (mean[name][at], error[name][at])
    ]
    for written, value in zip([said[k] for k in (1, 2, 6, 7, 3, 4, 8, 9)], expected, strict=True):
        assert float(written) == pytest.approx(
            value, abs=0.6 * 10.0 ** -len(written.partition(".")[2])
        )
    drawn = null["precision"].transpose("null", "n", ...).values.astype(float).mean(axis=(2, 3, 4))
    assert numbers(text)[-4:] == [
        round(drawn[kind, at], 2) for kind in (0, 1) for at in (1, lowest)
    ]
    assert list(null["null"].values) == ["random_selection", "random_directions"]


def test_the_sentences_of_the_assumptions_say_what_the_fits_hold(finished: Finished):
    tree = finished.tree
    norms, similarity, weights = (
        tree[name].to_dataset() for name in ("norms", "similarity", "weights")
    )
    _, first, second, third, _ = sentences(tree)
    cv, profile, position, lam = (
        norms[name].values for name in ("cv_token", "cv_profile", "cv_position", "lam")
    )
    assert (
        f"the length is {spread(cv, whole, 'of its mean in the median of 8 value heads')}, and at"
        f" most 5% in {(cv <= 0.05).sum()} of them" in first
    )
    assert (
        f"which is how the paper finds 2% to 3%, it is {spread(profile, whole)}, and would be"
        f" {spread(position, whole)} after averaging" in first
    )
    assert (
        f"with λ = {spread(lam, '{:.2f}'.format, 'in the median of 8 value heads')}, and λ ≤ 0.5 in"
        f" {(lam <= 0.5).sum()} of them; a token that acts as a sink (a norm of at most 0.5 times"
        " the median, a weight of at least 10/T) is there, strongest at position 0, in" in first
    )
    mae, rival = (
        similarity["mae_by_lag"].sel(gram=gram).values for gram in ("exponential", "offset")
    )
    assert (
        f"misses it by {spread(mae, '{:.2f}'.format, 'in the median of 8 value heads')}, where the"
        " paper's average is 0.09" in second
    )
    assert f"and by at most 0.10 in {(mae <= 0.1).sum()} of them" in second
    assert (
        f"one parameter more, misses it by {spread(rival, lambda x: rounded(x, digits=2).plain)};"
        in second
    )
    assert (
        f"{100 * similarity['negative_fraction'].values.mean():.0f}% of all cosines are negative"
        in second
    )
    impossible = (~similarity["feasible"].sel(gram="exponential").values.astype(bool)).sum()
    assert f"and in {impossible} of 8 value heads no vectors can have" in second
    common = "is common to all documents in the median of 16 heads"
    assert (
        f"a share {spread(weights['common_share'].values, '{:.2f}'.format, common)}, and the phases"
        in third
    )
    explained = spread(weights["r2_document"].values, "{:.2f}".format, "")
    assert f"fitted to the others, explain {explained.replace('  ', ' ')};" in third
    recency = int(weights["growth_identified"].sum())
    assert f"of whatever shape, stands out of the noise in {recency} of them" in third
    shared, separate = (
        int(weights["form_oscillation_identified"].sel(form=form).sum())
        for form in ("shared", "separate")
    )
    assert f"as printed, in {shared}, and one with a size of its own in {separate}" in third
    rival, lowest = list(weights["rival"].values), weights["rival_loss_left_out"].values.argmin(0)
    clear = weights["rival_clearly_lowest"]
    for words, form in (("the printed one", "shared"), ("to the last token", "power_law")):
        best = (lowest == rival.index(form)).sum()
        assert f"{words} in {best} ({int(clear.sel(rival=form).sum())})" in third
    assert "of six forms, the lowest loss on documents left out has, of 16 heads, the" in third
    assert (
        "the sink takes"
        f" {spread(weights['p_sink'].values, whole, 'of the attention in the median head')}."
        in third
    )


def test_a_tolerance_of_the_user_reaches_the_sentences_that_count_by_it(
    finished: Finished, tmp_path: Path
):
    cv = finished.tree["norms"]["cv_token"].values
    mae = finished.tree["similarity"]["mae_by_lag"].sel(gram="exponential").values
    between = [float(np.sort(values.ravel())[2:4].mean().round(5)) for values in (cv, mae)]
    own = tmp_path / "own.toml"
    own.write_text(
        f"[norms.cv]\nat_most = {between[0]}\n[similarity.exponential]\nat_most = {between[1]}\n",
        encoding="utf-8",
    )
    fits = xr.DataTree.from_dict(
        {
            f"/{name}": finished.tree[name].to_dataset()
            for name in ("norms", "similarity", "weights")
        }
    )
    _, norms, similarity, *_ = sentences(gs.confront(finished.tree, fits, points=3, tolerances=own))
    assert f"and at most {100 * between[0]:g}% in 3 of them" in norms
    assert f"and by at most {between[1]:g} in 3 of them" in similarity


def spread(values: np.ndarray, show: Callable[[float], str], between: str = "") -> str:
    low, middle, high = np.quantile(values, [0.25, 0.5, 0.75])
    return f"{show(middle)}{' ' * bool(between)}{between} (middle half {show(low)} to {show(high)})"


def whole(share: float) -> str:
    return f"{100 * share:.{0 if share >= 0.0995 or share == 0 else 1}f}%"


def test_the_last_sentence_says_what_the_confrontation_holds(finished: Finished):
    text, found = sentences(finished.tree)[4], finished.tree["summary"].to_dataset()
    pairs = (("printed", "exponential"), ("sharp", "exponential"), ("sharp", "offset"))
    expected = [int(found["recall_cells"].max())]
    for edition, gram in pairs:
        chosen = found.sel(edition=edition, gram=gram)
        expected += [
            round(100 * float(chosen[f"recall_{name}"]))
            for name in ("inside", "drawn_inside", "outside", "drawn_outside")
        ]
        expected.append(round(float(chosen["recall_width"]), 2))
    assert numbers(text) == pytest.approx(
        [*expected, 0, 1, 95]
    )  # a scale from 0 to 1, the 95% interval


def test_grams_that_cannot_exist_are_counted(finished: Finished):
    groups = {f"/{name}": finished.tree[name].to_dataset() for name in finished.tree.children}
    similarity = groups["/similarity"].copy(deep=True)
    similarity["feasible"].loc[{"gram": "exponential"}] = False
    similarity["rho0"][0, 0] = np.nan
    tree = xr.DataTree.from_dict(groups | {"/similarity": similarity})
    assert (
        "and in 7 of 7 value heads no vectors can have the cosines"
        in summarise(tree).attrs["sentences"][2]
    )


@pytest.mark.slow
def test_a_run_without_baselines_and_of_one_document(tmp_path: Path):
    tree = concluded(run_tree(tmp_path / "run.zarr", documents=1, null=False))
    text = sentences(tree)
    assert "1 document of 40 tokens, at the last query)" in text[0]
    assert "±" not in text[0]
    assert "clearly" not in text[4]
    assert " wide" in text[4]
    assert "chance" not in text[0]
    assert "the sink takes" in text[3]


@pytest.mark.slow
def test_a_run_whose_windows_hide_the_sink(tmp_path: Path):
    tree = concluded(run_tree(tmp_path / "run.zarr", family="mistral", documents=2))
    _, norms, similarity, weights, bounds = sentences(tree)
    for text in (norms, weights):
        assert "; the sink at position 0 is not visible to the last token" in text
    assert similarity.endswith("no value head has both a fitted decay and a visible sink.")
    assert "n/a" not in bounds
    assert int(tree["summary"]["precision_cells"].max()) > 0


def test_a_run_in_which_no_head_could_be_fitted(finished: Finished):
    groups = {f"/{name}": finished.tree[name].to_dataset() for name in ("capture", "null")}
    for name in ("norms", "similarity", "weights"):
        fits = finished.tree[name].to_dataset()
        groups[f"/{name}"] = fits.map(
            lambda values: (
                values * np.nan
                if values.dtype.kind == "f"
                else values & False
                if values.dtype.kind == "b"
                else values
            )
        )
    run = xr.DataTree.from_dict(groups)
    env = gs.confront(
        run,
        xr.DataTree.from_dict(
            {f"/{name}": run[name].to_dataset() for name in ("norms", "similarity", "weights")}
        ),
    )
    text = sentences(env)
    for sentence in text[1:]:
        assert "n/a" in sentence or "none could be evaluated" in sentence, sentence
    assert text[4].startswith("Bounds on expected Recall, against 0 measured values")


def made_up(kind: str, out: Path) -> xr.DataTree:
    """Fits of tensors of which something is missing."""
    random = np.random.default_rng(0)
    alpha, values = random.dirichlet(np.ones(40), (3, 2, 4)), random.normal(size=(3, 2, 2, 40, 8))
    if kind == "no values":
        values[:] = 0
    elif kind == "no values but the sink's":
        values[:, :, :, 1:] = 0
    elif kind == "a sink of no length":
        values[:, :, :, 0] = 0
    elif kind == "even weights":
        alpha[:] = 1 / 40
    values[:, 0, 0, 0, 0] += np.arange(1, 4) * 1e-3 * (kind == "no values but the sink's")
    alpha[:, 0, 0, :2] += np.arange(3)[:, None] * np.array([1e-6, -1e-6])  # documents differ
    return gs.fit(gs.from_tensors(alpha, values, n="1,2,8", null=False, out=out))


SAID = {
    "no values": [
        "(no estimate: the mean norm is 0",
        "the sink's λ has no estimate (the mean norm is 0",
        "(no estimate: no document has a finite cosine)",
        "a cosine with the sink (no document has a finite cosine).",
        "; the sink takes ",
    ],
    "no values but the sink's": ["the sink's λ has no estimate (the mean norm is 0"],
    "a sink of no length": [
        "with λ = 0.00",
        "a cosine with the sink (the sink is visible, but its cosines are not finite).",
    ],
    "even weights": ["common to all documents in the median of 8 heads", "the sink takes 2.5%"],
}


@pytest.mark.parametrize("kind", SAID)
def test_what_has_no_estimate_has_its_reason_and_no_other(tmp_path: Path, kind: str):
    fits = made_up(kind, tmp_path)
    tolerances = read_tolerances()
    text = " ".join(
        [
            module._norms(fits["norms"].to_dataset(), tolerances),
            module._similarity(fits["similarity"].to_dataset(), 0.1),
            module._weights(fits["weights"].to_dataset()),
        ]
    )
    assert "not visible" not in text
    for said in SAID[kind]:
        assert said in text


@pytest.mark.parametrize("sizes", [[1, 40], pytest.param([1, 2], marks=pytest.mark.slow)])
def test_a_run_at_hardly_any_size(tmp_path: Path, sizes: list[int]):
    tree = concluded(run_tree(tmp_path / "run.zarr", documents=1, null=False, n=np.array(sizes)))
    text = sentences(tree)[0]
    assert ("no other number N of selected tokens was measured" in text) == (sizes == [1, 40])


@pytest.mark.slow
def test_sizes_beyond_every_window_are_no_size(tmp_path: Path):
    tree = concluded(
        run_tree(
            tmp_path / "run.zarr", family="mistral", documents=1, null=False, n=np.array([30, 36])
        )
    )
    assert "no other number N of selected tokens was measured" in sentences(tree)[0]


def test_the_errata_of_the_summary_are_the_catalogues(finished: Finished):
    found = json.loads(finished.tree["summary"].attrs["errata"])
    known = {entry.number: entry for entry in catalogue.errata()}
    assert [entry["number"] for entry in found] == list(READING)
    for entry in found:
        assert entry["title"] == known[entry["number"]].title
        assert entry["printed"] == known[entry["number"]].printed
        assert entry["true"] == known[entry["number"]].true


def test_quartiles_rest_on_finite_values():
    assert quartiles(np.array([np.nan, 4.0, 1.0, np.inf, 2.0, 3.0, 5.0])) == (3.0, 2.0, 4.0, 5)
    middle, _, _, count = quartiles(np.array([np.nan]))
    assert np.isnan(middle)
    assert count == 0
