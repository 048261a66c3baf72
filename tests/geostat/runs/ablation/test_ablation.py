"""What a run's model loses under cuts of heads, by command and in Python."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import xarray as xr
from support.families import tiny, tokens
from support.spine import LENGTH

import geostat as gs
from empirical.intervention.cut import Cut, intervened
from empirical.intervention.loss import next_token_losses
from empirical.intervention.rules import attention
from empirical.tap.tap import tap
from geostat.experiments.ablation.budgets import greedy, in_proportion, of_equal_mass
from geostat.experiments.ablation.dataset import cells_of
from geostat.experiments.ablation.heads import curve_of_head
from geostat.experiments.effective_size import PLAIN, Cell, crossing_of
from geostat.experiments.head_regime_rules import REGIMES
from geostat.runs.ablation import ablation as module
from geostat.runs.ablation.known_of_heads import QUERIES, known_of_heads
from geostat.runs.ablation.told import told

SIZES = (1, 4, 16)


def losses(ids: torch.Tensor, of: Any, model: Any = None) -> list[float]:
    """The loss of each document, in whole passes; `of` gives a document's cut of each layer."""
    model = tiny("llama") if model is None else model
    out = []
    for place, row in enumerate(ids):
        hidden = intervened(model, row[None], of(place))
        out.append(float(next_token_losses(model, hidden, row[None]).double().mean()))
    return out


def test_losses_of_single_heads_are_those_of_the_intervention(
    data: xr.Dataset, ids: torch.Tensor
) -> None:
    known, _ = cells_of(data)
    plain = losses(ids, lambda place: lambda layer: None)
    assert known[PLAIN].tolist() == plain
    for layer, head, mode, n in ((0, 1, "deletion", 4), (3, 2, "renormalisation", 1)):
        cut = Cut(rule=attention, mode=mode, n=n, heads=[head])  # type: ignore[arg-type]
        cuts = {layer: cut}
        expected = losses(ids, lambda place, cuts=cuts: cuts.get)
        assert known[Cell(f"L{layer}H{head}", "attention", mode, n)].tolist() == expected
        at = data["head_rise"].sel(mode=mode, n=n).isel(layer=layer, head=head)
        assert float(at) == pytest.approx(np.mean(np.array(expected) / plain - 1))


def test_a_head_s_own_size_is_searched_to_the_integer(data: xr.Dataset, ids: torch.Tensor) -> None:
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
        assert above == 0 or above + 1 in (*mean, LENGTH)  # neighbours: nothing lies between
        searched += len(mean) - len(SIZES)
    assert searched == sum(cell.scope.endswith(", N*") for cell in known) > 0
    cell = next(cell for cell in known if cell.scope.endswith(", N*"))
    layer, head = (int(cell.scope[place]) for place in (1, 3))
    cut = Cut(rule=attention, mode=cell.mode, n=cell.n, heads=[head])  # type: ignore[arg-type]
    assert known[cell].tolist() == losses(ids, lambda place: {layer: cut}.get)
    for side in ("lower", "upper"):
        limits = data[f"head_n_star_{side}"].values
        limits = limits[np.isfinite(limits)]
        assert (limits == np.round(limits)).all()
        assert limits.min() >= 1
        assert limits.max() <= LENGTH
    inside = (star > 1) & (star < LENGTH)
    assert bool((data["head_n_star_lower"] <= star).where(inside, True).all())
    assert bool((data["head_n_star_upper"] >= star).where(inside, True).all())
    assert bool(data["head_n_star_se"].notnull().where(inside, True).all())


def known(ids: torch.Tensor) -> dict[str, Any]:
    each = [known_of_heads(tiny("llama"), row.numpy(), [4, 9], "paper") for row in ids]
    return {name: np.stack([one[name] for one in each]) for name in each[0]}


@pytest.mark.parametrize("mode", ["deletion", "renormalisation"])
def test_budgets_are_shared_from_the_other_documents(
    data: xr.Dataset, ids: torch.Tensor, mode: Any
) -> None:
    seen, rise = known(ids), cells_of(data)[0]
    assert data["precision"].sel(n=4).values == pytest.approx(seen["precision"][..., 0])
    assert data["entropy"].values == pytest.approx(seen["entropy"])
    plain = rise[PLAIN]
    single = {
        n: np.stack(
            [rise[Cell(f"L{place // 4}H{place % 4}", "attention", mode, n)] for place in range(16)],
            axis=1,
        )
        / plain[:, None]
        - 1
        for n in SIZES
    }

    def sizes(way: str, other: int) -> np.ndarray:
        if way == "uniform":
            return np.full(16, 9)
        if way == "mass":
            return of_equal_mass(seen["kept_mass"][other].reshape(16, -1), 9)
        if way == "entropy":
            return in_proportion(np.exp(seen["entropy"][other]).ravel(), 9, LENGTH)
        if way == "greedy":
            return greedy({n: each[other] for n, each in single.items()}, 9, LENGTH)
        f = seen["f_outer"][other, ..., 1].ravel()
        return in_proportion(f if "reversed" in way else 1 - f, 9, LENGTH)

    found = {}
    for way in data["way"].values.tolist():
        share = [sizes(way, 1 - place).reshape(4, 4).tolist() for place in range(2)]

        def of(place: int, share: Any = share) -> Any:
            return lambda layer: Cut(rule=attention, mode=mode, n=share[place][layer])

        found[way] = np.array(losses(ids, of)) / plain - 1
        at = data["budget_rise"].sel(mode=mode, budget=9, way=way)
        assert float(at) == pytest.approx(found[way].mean(), rel=1e-6, abs=1e-9)
    for way, each in found.items():
        at = data["budget_less_mass"].sel(mode=mode, budget=9, way=way)
        assert float(at) == pytest.approx((each - found["mass"]).mean(), abs=1e-9)


@pytest.mark.slow
def test_regimes_are_cut_beside_as_many_drawn_heads(with_regimes: Path, tmp_path: Path) -> None:
    shutil.copytree(with_regimes, tmp_path, dirs_exist_ok=True)
    ids = tokens(4, 80)
    asked: dict[str, Any] = {"documents": list(ids.numpy()), "length": 80, "null": False}
    asked |= {"mode": "both", "sizes": [1, 4], "budgets": [4], "draws": 3}
    run = gs.ablate(tiny("llama"), **asked, parts=["regimes"], out=tmp_path)
    data, label = run["ablation"].to_dataset(), run["heads"].to_dataset()["label"]
    label = label.sel(criterion="size").values
    assert data["cut"].values.tolist() == [
        "keep 4, deletion",
        "keep 4, renormalisation",
        "taken out",
    ]
    known, _ = cells_of(data)
    assert data.sizes["regime"] > 0
    lines = told(data)["ablation"]
    assert sum("as many drawn heads" in line for line in lines) == data["regime_rise"].size
    for regime in data["regime"].values.tolist():
        chosen = label == REGIMES.index(regime)
        assert int(data["regime_heads"].sel(regime=regime)) == chosen.sum() > 0
        model = tiny("llama")
        width = model.config.head_dim
        for layer, row in zip(model.get_decoder().layers, chosen, strict=True):
            for head in np.flatnonzero(row):  # taken out at its output
                layer.self_attn.o_proj.weight.data[:, head * width : (head + 1) * width] = 0
        expected = losses(ids, lambda place: lambda layer: None, model)
        assert known[Cell(regime, "attention", "deletion", 0)] == pytest.approx(expected, rel=1e-5)
        drawn = data["drawn_rise"].sel(regime=regime)
        assert drawn.shape == (3, 3)
        for cut in data["cut"].values.tolist():
            draws = drawn.sel(cut=cut).values
            own = float(data["regime_rise"].sel(regime=regime, cut=cut))
            expected_p = min(1, 2 * (1 + min((draws <= own).sum(), (draws >= own).sum())) / 4)
            assert float(data["drawn_p"].sel(regime=regime, cut=cut)) == expected_p


@pytest.mark.parametrize("family", ["llama", "mistral"])
def test_what_is_known_of_heads_is_the_mean_over_the_same_queries(family: str) -> None:
    """Of a layer whose window hides the sink from the last query, those that do not see it."""
    row = tokens(1, 60)[0]
    found = known_of_heads(tiny(family), row.numpy(), [4], "paper")
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
        assert found["kept_mass"][layer] == pytest.approx(kept.mean(axis=0))
        logs = np.log(np.where(seen > 0, seen, 1))
        assert found["entropy"][layer] == pytest.approx(-(seen * logs).sum(axis=-1).mean(axis=0))
    assert family == "llama" or any(first[-1] > 0 for _, first in rows)


def test_a_short_window_has_fewer_queries() -> None:
    found = known_of_heads(tiny("llama"), tokens(1, 6)[0].numpy(), [2], "paper")
    assert np.isfinite(found["kept_mass"]).all()


def test_needs_of_heads_are_jackknifed_over_documents(data: xr.Dataset) -> None:
    known, _ = cells_of(data)
    label = data["group_heads"].sel(mode="deletion")
    assert int(label.sel(group="all")) == 16

    def without(at: int) -> tuple[float, float]:
        """Share of one token, and log of what half need, by the other document alone."""
        places = []
        for layer, head in np.ndindex(4, 4):
            curve = curve_of_head(known, layer, head, "deletion")
            sizes = [*curve, LENGTH]
            rise = [*(loss[1 - at] / known[PLAIN][1 - at] - 1 for loss in curve.values()), 0.0]
            places.append(crossing_of(sizes, np.array(rise), data.attrs["tau"]))
        half = np.log(np.quantile(places, 0.5, method="inverted_cdf"))
        return float(np.mean(np.array(places) <= 1)), float(half)

    (one, log_one), (other, log_other) = without(0), without(1)
    at = data.sel(mode="deletion", group="all")
    assert float(at["head_share_of_one_se"]) == pytest.approx(abs(one - other) / 2)
    relative = float(at["head_needed_se"].sel(quantile=0.5) / at["head_needed"].sel(quantile=0.5))
    assert relative == pytest.approx(abs(log_one - log_other) / 2)


def test_contexts_are_the_last_tokens_with_the_same_targets(tmp_path: Path) -> None:
    ids = tokens(3, 40)
    asked: dict[str, Any] = {"documents": list(ids.numpy()), "length": 40, "null": False}
    asked |= {"out": tmp_path, "mode": "both", "target": "last:4"}
    run = gs.ablate(tiny("llama"), **asked, parts=["context"], contexts=[10, 20, 40])
    data = run["ablation"].to_dataset()
    known, _ = cells_of(data)
    for context in (10, 40):
        found = []
        for row in ids[:, -context:]:
            cut = Cut(rule=attention, mode="deletion", n=2)
            hidden = intervened(tiny("llama"), row[None], lambda layer, cut=cut: cut)
            each = next_token_losses(tiny("llama"), hidden, row[None], 4)
            found.append(float(each.double().mean()))
        cell = Cell(f"last {context} tokens", "attention", "deletion", 2)
        assert known[cell].tolist() == found
    assert data["context_n_star"].shape == (2, 3)
    assert (data["context_n_star"] <= data["context"]).all()
    assert np.isfinite(data["context_power"]).all()
    assert sum("to the power" in line for line in told(data)["ablation"]) == 2
    begun = tokens(2, 30).numpy()
    begun[:, 0] = 7  # a token that begins every text
    assert module.last_tokens(begun, 9)[:, 0].tolist() == [7, 7]
    assert (module.last_tokens(begun, 9)[:, 1:] == begun[:, -8:]).all()
    assert (module.last_tokens(ids.numpy(), 9) == ids.numpy()[:, -9:]).all()
