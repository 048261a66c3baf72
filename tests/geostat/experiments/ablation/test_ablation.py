"""Losses under ablation of heads, by command and in Python."""

import shutil
from typing import Any

import numpy as np
import pytest
import torch
import xarray as xr
from support.families import tiny, tokens
from support.losses import mean_losses
from support.spine import LENGTH

import geostat as gs
from empirical.intervention.cut import Cut
from empirical.intervention.rules import attention
from empirical.tap.tap import tap
from geostat.analyses.effective_size import PLAIN, Cell, crossing_of
from geostat.analyses.head_regime_rules import REGIMES
from geostat.experiments.ablation import measure
from geostat.experiments.ablation.budgets import greedy, in_proportion, of_equal_mass
from geostat.experiments.ablation.context import context_dataset
from geostat.experiments.ablation.dataset import cells_of, summary
from geostat.experiments.ablation.heads import curve_of_head
from geostat.experiments.ablation.measure import QUERIES, head_features, last_tokens
from geostat.experiments.ablation.options import AblateOptions
from geostat.experiments.session import Evaluations, Losses
from geostat.runs.console import QUIET

SIZES = (1, 4, 16)


def test_losses_of_single_heads_are_those_of_the_intervention(data, ids):
    known, _ = cells_of(data)
    plain = mean_losses(tiny("llama"), ids)
    assert known[PLAIN].tolist() == plain.tolist()
    for layer, head, mode, n in ((0, 1, "deletion", 4), (3, 2, "renormalisation", 1)):
        cut = Cut(rule=attention, mode=mode, n=n, heads=[head])  # type: ignore[arg-type]
        expected = mean_losses(tiny("llama"), ids, {layer: cut}.get)
        cell = Cell(f"L{layer}H{head}", "attention", mode, n)
        assert known[cell].tolist() == expected.tolist()
        selected = data["head_rise"].sel(mode=mode, n=n).isel(layer=layer, head=head)
        assert float(selected) == pytest.approx((expected / plain - 1).mean())


def test_n_star_of_a_head_is_searched_to_the_integer(data, ids):
    star, tau = data["head_n_star"], data.attrs["tau"]
    known, _ = cells_of(data)
    assert star.shape == (2, 4, 4)
    assert len(np.unique(star)) > 4
    searched = 0
    for place in np.ndindex(star.shape):
        mode = str(star["mode"].values[place[0]])
        scope = f"L{place[1]}H{place[2]}"
        mean = {
            cell.n: (known[cell] / known[PLAIN] - 1).mean()
            for cell in known
            if cell.scope in (scope, f"{scope}, N*") and cell.mode == mode
        }
        assert set(SIZES) <= set(mean)
        above = max((n for n, rise in mean.items() if rise > tau), default=0)
        assert int(star[place]) == above + 1
        grows = np.diff([*(mean[n] for n in sorted(mean)), 0.0]) > 0
        assert int(data["head_steps_up"][place]) == grows.sum()
        assert above == 0 or above + 1 in (*mean, LENGTH)  # adjacent N
        searched += len(mean) - len(SIZES)
    assert searched == sum(cell.scope.endswith(", N*") for cell in known) > 0
    cell = next(cell for cell in known if cell.scope.endswith(", N*"))
    layer, head = (int(cell.scope[place]) for place in (1, 3))
    cut = Cut(rule=attention, mode=cell.mode, n=cell.n, heads=[head])  # type: ignore[arg-type]
    assert known[cell].tolist() == mean_losses(tiny("llama"), ids, {layer: cut}.get).tolist()
    for side in ("lower", "upper"):
        limits = data[f"head_n_star_{side}"].values
        assert set() < set(limits[np.isfinite(limits)]) <= set(range(1, LENGTH + 1))
    inside = (star > 1) & (star < LENGTH)
    assert bool((data["head_n_star_lower"] <= star).where(inside, True).all())
    assert bool((data["head_n_star_upper"] >= star).where(inside, True).all())
    assert bool(data["head_n_star_se"].notnull().where(inside, True).all())


@pytest.mark.parametrize("mode", ["deletion", "renormalisation"])
def test_budgets_are_shared_from_the_other_documents(data, ids, mode):
    features = [head_features(tiny("llama"), row.numpy(), [4, 9], "paper") for row in ids]
    seen = {name: np.stack([document[name] for document in features]) for name in features[0]}
    rise, _ = cells_of(data)
    assert data["precision"].sel(n=4).values == pytest.approx(seen["precision"][..., 0])
    assert data["entropy"].values == pytest.approx(seen["entropy"])
    plain = rise[PLAIN]
    names = [f"L{layer}H{head}" for layer, head in np.ndindex(4, 4)]
    single = {
        n: np.stack([rise[Cell(name, "attention", mode, n)] / plain - 1 for name in names], axis=1)
        for n in SIZES
    }

    def sizes(way: str, document: int) -> np.ndarray:
        def others(values: np.ndarray) -> np.ndarray:
            return np.delete(values, document, axis=0).mean(axis=0).reshape(16, -1).squeeze()

        if way == "uniform":
            return np.full(16, 9)
        if way == "mass":
            return of_equal_mass(others(seen["selected_mass"]), 9)
        if way == "entropy":
            return in_proportion(np.exp(others(seen["entropy"])), 9, LENGTH)
        if way == "greedy":
            return greedy({n: others(each) for n, each in single.items()}, 9, LENGTH)
        f = others(seen["f_outer"][..., 1])
        return in_proportion(f if "reversed" in way else 1 - f, 9, LENGTH)

    found = {}
    for way in data["way"].values.tolist():
        found[way] = np.zeros(3)
        for document in range(3):
            by_layer = sizes(way, document).reshape(4, 4).tolist()
            cuts = [Cut(rule=attention, mode=mode, n=by_head) for by_head in by_layer]
            (loss,) = mean_losses(tiny("llama"), ids[[document]], dict(enumerate(cuts)).get)
            found[way][document] = loss / plain[document] - 1
        selected = data["budget_rise"].sel(mode=mode, budget=9, way=way)
        assert float(selected) == pytest.approx(found[way].mean(), rel=1e-6, abs=1e-9)
    for way, each in found.items():
        selected = data["budget_less_mass"].sel(mode=mode, budget=9, way=way)
        assert float(selected) == pytest.approx((each - found["mass"]).mean(), abs=1e-9)


@pytest.mark.slow
def test_regimes_are_cut_beside_as_many_drawn_heads(with_regimes, tmp_path):
    shutil.copytree(with_regimes, tmp_path, dirs_exist_ok=True)
    ids = tokens(4, 80)
    keywords: dict[str, Any] = {"documents": list(ids.numpy()), "length": 80, "null": False}
    keywords |= {"mode": "both", "sizes": [1, 4], "budgets": [4], "draws": 3}
    run = gs.ablate(tiny("llama"), **keywords, parts=["regimes"], out=tmp_path)
    data, label = run["ablation"].to_dataset(), run["heads"].to_dataset()["label"]
    label = label.sel(criterion="size").values
    cuts = ["keep 4, deletion", "keep 4, renormalisation", "taken out"]
    assert data["cut"].values.tolist() == cuts
    known, _ = cells_of(data)
    assert data.sizes["regime"] > 0
    lines = summary(data)["ablation"]
    assert sum("for as many random heads" in line for line in lines) == data["regime_rise"].size
    for regime in data["regime"].values.tolist():
        chosen = label == REGIMES.index(regime)
        assert int(data["regime_heads"].sel(regime=regime)) == chosen.sum() > 0
        model = tiny("llama")
        width = model.config.head_dim
        for layer, row in zip(model.get_decoder().layers, chosen, strict=True):
            for head in np.flatnonzero(row):  # remove its output
                layer.self_attn.o_proj.weight.data[:, head * width : (head + 1) * width] = 0
        expected = mean_losses(model, ids)
        assert known[Cell(regime, "attention", "deletion", 0)] == pytest.approx(expected, rel=1e-5)
        drawn = data["drawn_rise"].sel(regime=regime)
        assert drawn.shape == (3, 3)
        for cut in cuts:
            draws = drawn.sel(cut=cut).values
            own = float(data["regime_rise"].sel(regime=regime, cut=cut))
            expected_p = min(1, 2 * (1 + min((draws <= own).sum(), (draws >= own).sum())) / 4)
            assert float(data["drawn_p"].sel(regime=regime, cut=cut)) == expected_p


@pytest.mark.parametrize("family", ["llama", "mistral"])
def test_what_is_known_of_heads_is_the_mean_over_the_same_queries(family):
    """In a layer whose window hides the sink from the last query, only such queries are used."""
    row = tokens(1, 60)[0]
    found = head_features(tiny(family), row.numpy(), [4], "paper")
    places = np.unique(np.linspace(60 / QUERIES, 60, QUERIES).round().astype(int)) - 1
    assert len(places) == QUERIES
    assert places[-1] == 59
    rows: list[Any] = []
    tap(
        tiny(family),
        row[None],
        lambda layer: rows.append((layer.alpha[0].double().numpy(), np.array(layer.first[0]))),
        queries=torch.as_tensor(places[None]),
    )
    for layer, (alpha, first) in enumerate(rows):  # alpha: (query, head, position)
        seen = alpha[(first == 0) == (first[-1] == 0)]
        kept = np.sort(seen, axis=-1)[..., ::-1].cumsum(axis=-1)
        assert found["selected_mass"][layer] == pytest.approx(kept.mean(axis=0))
        logs = np.log(np.where(seen > 0, seen, 1))
        assert found["entropy"][layer] == pytest.approx(-(seen * logs).sum(axis=-1).mean(axis=0))
    assert family == "llama" or any(first[-1] > 0 for _, first in rows)


def test_a_short_window_has_fewer_queries():
    found = head_features(tiny("llama"), tokens(1, 6)[0].numpy(), [2], "paper")
    assert np.isfinite(found["selected_mass"]).all()


def test_needs_of_heads_are_jackknifed_over_documents(data):
    known, _ = cells_of(data)
    label = data["group_heads"].sel(mode="deletion")
    assert int(label.sel(group="all")) == 16

    def without(at: int) -> tuple[float, float]:
        """Share of one token, and log of what half need, by the other documents alone."""
        places = []
        for layer, head in np.ndindex(4, 4):
            curve = curve_of_head(known, layer, head, "deletion")
            rise = [np.delete(loss / known[PLAIN] - 1, at).mean() for loss in curve.values()]
            sizes = [*curve, LENGTH]
            places.append(crossing_of(sizes, np.array([*rise, 0.0]), data.attrs["tau"]))
        half = np.log(np.quantile(places, 0.5, method="inverted_cdf"))
        return float(np.mean(np.array(places) <= 1)), float(half)

    share_se, log_se = np.std([without(at) for at in range(3)], axis=0) * 2**0.5
    selected = data.sel(mode="deletion", group="all")
    assert float(selected["head_share_of_one_se"]) == pytest.approx(share_se)
    needed = selected.sel(quantile=0.5)
    assert float(needed["head_needed_se"] / needed["head_needed"]) == pytest.approx(log_se)


def test_contexts_are_the_last_tokens_with_the_same_targets(tmp_path):
    ids = tokens(2, LENGTH).numpy()
    losses = Losses(tiny("llama"), ids, 2, Evaluations(tmp_path / "losses", {}), QUIET)
    options = {"parts": "context", "contexts": "6,12,40", "target": "last:2", "mode": "deletion"}
    layers = xr.Dataset(coords={"layer": range(4)})
    measure._context(losses, layers, AblateOptions(length=LENGTH, **options))
    known, cut = losses.known.losses, Cut(rule=attention, mode="deletion", n=2)
    for context in (6, 40):
        expected = mean_losses(tiny("llama"), ids[:, -context:], lambda layer: cut, 2)
        cell = Cell(f"last {context} tokens", "attention", "deletion", 2)
        assert known[cell].tolist() == expected.tolist()
    data = context_dataset(known, 0.05)
    assert data["context_n_star"].shape == (1, 3)
    assert (data["context_n_star"] <= data["context"]).all()
    assert np.isfinite(data["context_power"]).all()


def test_a_shared_first_token_stays_first_in_a_context():
    ids, begun = tokens(3, 40).numpy(), tokens(2, 30).numpy()
    begun[:, 0] = 7  # a beginning-of-text token
    assert last_tokens(begun, 9)[:, 0].tolist() == [7, 7]
    assert (last_tokens(begun, 9)[:, 1:] == begun[:, -8:]).all()
    assert (last_tokens(ids, 9) == ids[:, -9:]).all()
