"""What a run's model loses under cuts of heads, by command and in Python."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import xarray as xr
from support.families import tiny, tokens
from support.spine import LENGTH, geostat, refused

import geostat as gs
from empirical.intervention.cut import Cut, intervened
from empirical.intervention.loss import next_token_losses
from empirical.intervention.rules import attention
from empirical.store.store import Store
from empirical.tap.tap import tap
from geostat.experiments.ablation.budgets import WAYS, greedy, in_proportion, of_equal_mass
from geostat.experiments.ablation.dataset import cells_of
from geostat.experiments.ablation.heads import curve_of_head
from geostat.experiments.effective_size import PLAIN, Cell, crossing_of
from geostat.experiments.head_regime_rules import REGIMES
from geostat.runs.ablation import ablation as module
from geostat.runs.ablation.known_of_heads import QUERIES, known_of_heads
from geostat.runs.ablation.told import told
from geostat.runs.effective.losses import Losses

SIZES = (1, 4, 16)


@pytest.fixture(scope="module")
def words(model_folder: Path, text_folder: Path) -> list[Any]:
    size = ["--documents", 2, "--length", LENGTH, "--n", "1,4,9,16", "--no-null"]
    asked = ["--sizes", "1,4,16", "--budgets", "4,9", "--draws", 3, "--mode", "both"]
    return ["ablate", model_folder, "--text", text_folder, *size, *asked]


@pytest.fixture(scope="module")
def run(words: list[Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("ablation")
    said = geostat(*words, "--out", out)
    assert said.code == 0, said
    (out / "said").write_text(said.stdout)
    return out


@pytest.fixture(scope="module")
def data(run: Path) -> xr.Dataset:
    return Store.open(run / "run.zarr").read("ablation")


@pytest.fixture(scope="module")
def ids(run: Path) -> torch.Tensor:
    token_ids = Store.open(run / "run.zarr").tree()["capture"]["token_id"].values
    return torch.as_tensor(token_ids, dtype=torch.long)


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


def test_regimes_are_cut_beside_as_many_drawn_heads(tmp_path: Path) -> None:
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


def test_the_lines_tell_budgets_and_regimes(run: Path, data: xr.Dataset, words: list[Any]) -> None:
    lines = (run / "said").read_text().splitlines()
    assert lines[-1] == f"run: {run / 'run.zarr'}"
    assert sum(line.startswith("  budget of 4 tokens a head, deletion: ") for line in lines) == 1
    records = json.loads(geostat(*words, "--out", run, "--json", "--quiet").stdout)
    assert len(records["budgets"]) == 2 * 2 * 6
    assert records["regimes"] == []  # no head of these is told
    finite = int(data["rank_correlation"].notnull().sum())
    assert len(records["correlations"]) == finite > 0
    assert [one["n_star"] for one in records["single_heads"]] == data[
        "head_n_star"
    ].values.ravel().tolist()
    star = data["head_n_star"].sel(mode="deletion").values
    share = f"{100 * (star == 1).mean():.0f}%"
    (line,) = [line for line in lines if line.startswith(f"  single heads, deletion: {share}")]
    assert "of 16 need one token to keep the loss within 0.1%, half at most" in line
    assert f"nine of ten at most {np.sort(star.ravel())[14]:.0f} (" in line
    assert "answers" in records


def counted(monkeypatch: pytest.MonkeyPatch, stop: int | None = None) -> list[Any]:
    """Note every document's loss that is measured; interrupt the one after `stop`."""
    measured: list[Any] = []
    own = Losses._loss

    def loss(self: Any, place: int, *more: Any) -> float:
        if len(measured) == stop:
            raise KeyboardInterrupt
        measured.append(place)
        return own(self, place, *more)

    monkeypatch.setattr(Losses, "_loss", loss)
    return measured


def test_what_is_interrupted_goes_on_and_what_is_there_stays(
    words: list[Any], run: Path, data: xr.Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        counted(patch, stop=31)  # within a cut's documents
        said = geostat(*words, "--out", tmp_path, "--quiet")
    assert said.code == 130
    assert "losses measured so far (15) are kept" in said.stderr
    with monkeypatch.context() as patch:
        measured = counted(patch)
        assert geostat(*words, "--out", tmp_path, "--quiet").code == 0
    assert len(measured) == 2 * (data.sizes["cell"] + 1 - 15)
    xr.testing.assert_identical(Store.open(tmp_path / "run.zarr").read("ablation"), data)
    assert [path.name for path in tmp_path.glob(".run*")] == []
    with monkeypatch.context() as patch:
        measured = counted(patch)
        assert geostat(*words, "--out", tmp_path, "--quiet", "--part", "heads").code == 0
        assert measured == []
    xr.testing.assert_identical(Store.open(tmp_path / "run.zarr").read("ablation"), data)


def test_other_questions_add_to_what_is_there(
    words: list[Any], run: Path, data: xr.Dataset, tmp_path: Path
) -> None:
    shutil.copytree(run, tmp_path / "more")
    more = ["--out", tmp_path / "more", "--quiet"]
    other = [*words, "--sizes", "8,1", "--budgets", "5", "--mode", "deletion", "--draws", 5]
    assert geostat(*other, "--part", "heads,budgets", *more).code == 0
    found = Store.open(tmp_path / "more" / "run.zarr").read("ablation")
    sizes = found["n"].values[found["head_rise"].notnull().any(("mode", "layer", "head")).values]
    assert sizes.tolist() == [1, 4, 8, 16]
    assert bool(found["head_rise"].sel(n=8, mode="renormalisation").isnull().all())
    assert found["budget"].values.tolist() == [4, 5, 9]
    for name, at in (
        ("head_rise", {"n": [1, 4, 16]}),
        ("precision", {"n": list(data["n"].values)}),
    ):
        xr.testing.assert_equal(found[name].sel(at), data[name].sel(at))
    ways = {"way": [way for way in WAYS if way != "greedy"], "budget": [4, 9]}
    xr.testing.assert_equal(found["budget_rise"].sel(ways), data["budget_rise"].sel(ways))
    assert found.attrs["primary"] == "rise at N = 8"
    assert json.loads(geostat(*other, *more, "--json", "--part", "heads").stdout)["regimes"] == []


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


def test_another_question_leaves_earlier_answers(
    words: list[Any], run: Path, data: xr.Dataset, tmp_path: Path
) -> None:
    shutil.copytree(run, tmp_path / "more")
    other = [*words[:-8], "--sizes", "1,8", "--tau", ".5", "--budgets", "4", "--draws", "3"]
    other += ["--out", tmp_path / "more", "--quiet", "--part"]
    assert geostat(*other, "regimes", "--mode", "deletion").code == 0
    found = Store.open(tmp_path / "more" / "run.zarr").read("ablation")
    assert found.attrs["tau"] == data.attrs["tau"]
    assert found.attrs["greedy_sizes"] == data.attrs["greedy_sizes"] == "1,4,16"
    for name in ("head_n_star", "head_needed", "budget_rise"):
        xr.testing.assert_equal(found[name], data[name])
    assert geostat(*other, "heads,budgets", "--mode", "deletion").code == 0
    found = Store.open(tmp_path / "more" / "run.zarr").read("ablation")
    assert found.attrs["tau"] == 0.5
    assert found.attrs["greedy_sizes"] == "1,8 (deletion), 1,4,16 (renormalisation)"
    assert bool(found["head_n_star"].sel(mode="deletion").notnull().all())
    greedy = {"way": "greedy", "mode": "renormalisation"}
    xr.testing.assert_equal(found["budget_rise"].sel(greedy), data["budget_rise"].sel(greedy))


def test_a_part_by_itself_in_python(tmp_path: Path) -> None:
    asked: dict[str, Any] = {"documents": list(tokens(2, 40).numpy()), "length": 40, "null": False}
    asked |= {"out": tmp_path, "sizes": [1, 4], "budgets": [4]}
    found = gs.ablate(tiny("llama"), **asked, parts=["budgets"])["ablation"].to_dataset()
    assert "head_rise" not in found
    greedy = found["budget_rise"].sel(way="greedy")
    assert bool(greedy.isnull().all())  # no single head was cut
    assert bool(found["budget_rise"].drop_sel(way="greedy").notnull().all())
    assert all("budgets of 4 tokens" in line for line in found.attrs["answers"])


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"draws": 2.5}, "--draws 2.5: expected a whole number"),
        ({"tau": [0.1]}, r"--tau \[0.1\]: expected a share above 0"),
        ({"parts": "layers"}, "--part layers: "),
        ({"sizes": 80}, "--sizes 80: a window has 40 tokens"),
    ],
)
def test_what_is_no_such_number_is_refused_before_anything_is_measured(
    tmp_path: Path, given: dict[str, Any], said: str
) -> None:
    asked = {"documents": list(tokens(2, 40).numpy()), "length": 40, "out": tmp_path / "out"}
    with pytest.raises(gs.InputError, match=said):
        gs.ablate(tiny("llama"), **{**asked, "parts": "heads", **given})
    assert not (tmp_path / "out").exists()


def test_an_unknown_keyword_is_named_beside_those_that_there_are(tmp_path: Path) -> None:
    with pytest.raises(
        TypeError, match=r"ablate\(\) has no keyword 'part', expected one of .*parts"
    ):
        gs.ablate(tiny("llama"), documents=[[1, 2, 3]], length=3, out=tmp_path, part="heads")


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


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--part", "layers"], "--part layers: "),
        (["--mode", "half"], "--mode half: "),
        (["--sizes", "0,4"], "--sizes 0,4: expected whole numbers from 1"),
        (["--sizes", "4,8"], "the greedy budget starts from N = 1"),
        (["--sizes", "1,40"], "--sizes 40: a window has 40 tokens"),
        (["--budgets", "x"], "--budgets x: expected whole numbers from 1"),
        (["--budgets", "99"], "--budgets 99: a window has 40 tokens"),
        (["--part", "regimes", "--budgets", "99"], "--budgets 99: a window has 40 tokens"),
        (["--tau", "0"], "--tau 0.0: expected a share above 0"),
        (["--draws", "0"], "--draws 0: expected a whole number from 1 to 10000"),
        (["--target", "last:40"], "--target last:40: a window of 40 tokens has 39"),
        (["--part", "context"], "expected two contexts or more, and targets last:K"),
        (["--part", "context", "--contexts", "20,40", "--target", "last:20"], "last:10"),
        (["--part", "context", "--contexts", "20,80", "--target", "last:9"], "--contexts 80: a"),
        (["--target", "first"], "--target first: expected all, or last:K"),
        (["--documents", 6], "5 documents"),
    ],
)
def test_bad_input_is_one_line_and_nothing_is_written(
    words: list[Any], tmp_path: Path, more: list[Any], said: str
) -> None:
    line = refused(geostat(*words, *more, "--out", tmp_path / "out", "--quiet"))
    assert said in line
    assert not (tmp_path / "out" / "run.zarr").exists()


def test_a_damaged_group_is_taken_out(run: Path) -> None:
    folder = run / "run.zarr" / "ablation" / "entropy"
    chunk = next(path for path in (folder / "c").rglob("*") if path.is_file())
    chunk.write_bytes(chunk.read_bytes()[:-1] + b"\x00\x01")
    assert geostat("doctor", run).code == 4
    said = geostat("doctor", run, "--repair")
    assert said.code == 0, said
    assert "Run the same `geostat ablate` again" in said.stdout + said.stderr
    assert "ablation" not in Store.open(run / "run.zarr").results
    assert module.GROUP == "ablation"
