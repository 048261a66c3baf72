"""Study of verdicts on bounds: planted excess, and few false answers on rare texts."""

import re
import sys

import numpy as np
import pytest

from studies import bounds as study_of_bounds
from studies.bounds import (
    FAR,
    SIDES,
    Pool,
    bound_verdicts,
    draw_pool,
    flag_rows,
    plant_bounds,
    shift_bounds,
)
from studies.verdicts import main

N = np.array([1, 2, 5, 12, 30, 40])
EVERY = np.ones((2, 2, N.size), dtype=bool)
LOWER, UPPER = EVERY & (np.arange(2) == 0)[:, None], EVERY & (np.arange(2) == 1)[:, None]
HEADS = 200
MOST = 0.05 + 3 * np.sqrt(0.05 * 0.95 / HEADS)


def pool(rare: float = 0.25, low: float = 0.08, high: float = 1.0) -> Pool:
    """Documents whose curves lie near `low`, a share `rare` of them at `high`; bounds move too."""
    random = np.random.default_rng(3)
    jumps = random.random((1, 1000, 1)) < rare
    near = low + 0.01 * random.standard_normal((2, 1000, N.size))
    bounds = 0.5 + 0.02 * random.standard_normal((2, 2, 1000, N.size))
    return Pool(tokens=40, n=N, curves=np.where(jumps, high, near).clip(0, 1), bounds=bounds)


def smooth() -> Pool:
    """Documents with curves about 0.5, and bounds that follow them."""
    random = np.random.default_rng(4)
    curves = 0.5 + 0.08 * random.standard_normal((2, 1000, 1))
    curves = curves + 0.02 * random.standard_normal((2, 1000, N.size))
    bounds = curves[:, None] * 0.8 + 0.1 + 0.02 * random.standard_normal((2, 2, 1000, N.size))
    return Pool(tokens=40, n=N, curves=curves.clip(0, 1), bounds=bounds)


def planted(documents: Pool, excess: float, where: np.ndarray, heads=HEADS, single=False):
    """Return the row of heads whose bounds have this excess."""
    random = np.random.default_rng(6)
    return plant_bounds(documents, ("kind", "where"), excess, where, heads, random, single=single)


@pytest.mark.parametrize("excess", [-0.3, 0.01, 0.2])
def test_bounds_have_the_planted_excess(excess):
    documents = pool()
    bounds, there = shift_bounds(documents, excess)
    sign = np.array([1.0, -1.0])[:, None]
    beyond = sign * (bounds.mean(axis=2) - documents.truth[:, None])
    assert beyond[there] == pytest.approx(excess, abs=1e-9)
    assert bounds[there[:, :, None] & np.ones(bounds.shape, dtype=bool)].min() >= 0
    assert np.nanmax(bounds) <= 1
    assert not there[..., [0, -1]].any()  # N = 1 and N = T
    assert np.isnan(bounds.mean(axis=2)[~there]).all()
    room = (documents.truth[:, None] + sign * excess)[..., 1:-1]
    assert (there[..., 1:-1] == ((room >= 0) & (room <= 1))).all()


def test_the_answer_uses_the_curves_and_bounds_of_the_documents_of_the_head():
    documents = smooth()
    chosen = np.random.default_rng(0).integers(1000, size=(3, 8))
    far = np.array([FAR[side] for side in SIDES])[:, None, None, None]
    bounds = np.broadcast_to(far, (2, 2, 3, 8, N.size)).copy()
    bounds[1, 0, 2, :, 3] = 0.9  # the recall of the third head lies far below a bound at N = 12
    found = bound_verdicts(documents, bounds, chosen)
    assert found["estimate"][2] == pytest.approx(0.9 - documents.curves[1, chosen[2], 3].mean())
    assert (found["p_holds"][:2] < 1e-6).all()
    assert found["p_fails"][2] < 0.05 < found["p_fails"][0]
    assert found["p_holds"][2] > 0.99
    assert not found["alike"].any()


def test_documents_without_a_rare_text_do_not_make_a_bound_fail():
    """In a tenth of the heads all 8 documents lie low and close together, though the expected
    curve is three times as high and within its bounds.
    """
    of_precision = np.arange(2)[:, None, None] == 0
    for excess in (0.01, -0.1):
        row = planted(pool(), excess, LOWER & of_precision)
        assert row.fails <= MOST, row
        assert row.holds <= MOST or excess < 0, row
    held = planted(pool(), 0.01, UPPER, single=True)
    assert held.holds <= MOST, held


@pytest.mark.slow
def test_similar_documents_settle_a_distant_bound():
    assert planted(smooth(), 0.35, LOWER).fails > 0.9
    assert planted(smooth(), -0.35, EVERY).holds > 0.9
    for where in (LOWER, UPPER):
        row = planted(smooth(), 0.01, where, single=True)
        assert max(row.holds, row.fails) <= MOST, row
        assert row.median == pytest.approx(0.01, abs=0.01)


def test_documents_with_equal_values_are_counted():
    same = pool(rare=0.0, low=1.0)
    alike = Pool(tokens=40, n=N, curves=np.ones_like(same.curves), bounds=same.bounds)
    row = planted(alike, 0.2, UPPER, heads=50)
    assert row.alike == 1
    assert row.fails == 0  # eight documents at 1 do not exclude a mean of 0.81
    assert planted(alike, 0.8, UPPER, heads=50).fails == 1


def test_documents_of_a_kind_have_measured_curves_and_bounds_from_their_weights():
    documents, again = (draw_pool("growing", 64, 33, np.random.default_rng(2)) for _ in range(2))
    assert documents.curves.shape == (2, 64, documents.n.size)
    assert documents.bounds.shape == (2, 2, 64, documents.n.size)
    assert np.array_equal(documents.curves, again.curves)
    assert ((documents.curves >= 0) & (documents.curves <= 1)).all()
    low, high = documents.bounds.mean(axis=2).swapaxes(0, 1)
    error = documents.curves.std(axis=1) / 8
    assert (low - 4 * error <= documents.truth + 1e-9).all()
    assert (documents.truth <= high + 4 * error + 1e-9).all()
    assert documents.bounds[:, :, :, 2].std(axis=2).min() > 0  # they move with the document


@pytest.mark.slow
def test_the_command_prints_a_line_for_every_setting(capsys, monkeypatch):
    for name, value in {
        "BANDS": ((2, 4), (100, 200)),
        "INSIDE": (-0.1,),
        "OUTSIDE": (0.1,),
        "KINDS": {"flat": "absent"},
    }.items():
        monkeypatch.setattr(study_of_bounds, name, value)
    monkeypatch.setattr(study_of_bounds, "draw_pool", lambda *rest: pool())
    monkeypatch.setattr(sys, "argv", ["verdicts", "--claim", "bounds", "--heads", "20"])
    main()
    lines = capsys.readouterr().out.splitlines()
    answers = [line for line in lines if line.startswith("bounds")]
    assert sum(line.startswith("flags") for line in lines) == 4
    # inside; at and outside on each side; one at N from 2; one outside
    assert len(answers) == len(lines) - 4 == 1 + 2 * 2 + 4 + 1
    share = r" +\d+\.\d%"
    form = (
        rf"excess +-?\d\.\d{{3}}  tolerance 0\.010  heads +20  median .* holds{share}  fails{share}"
    )
    for line in answers:
        assert re.search(rf"{form}  documents agree{share}$", line)


@pytest.mark.slow
def test_few_documents_of_one_kind_put_nothing_outside_and_flags_of_smooth_curves_are_as_stated():
    def flagged(documents: Pool) -> dict[tuple[str, str], float]:
        rows = flag_rows("flat", documents, HEADS, np.random.default_rng(0))
        return {(row.statistic, row.side): row.flagged for row in rows}

    rare, even = flagged(pool()), flagged(smooth())
    assert rare["precision", "lower"] <= 0.025
    # by t alone: eight documents without the rare kind, (3/4)⁸
    assert rare["recall", "lower"] > 0.05
    assert 0.01 < np.mean([even["recall", side] for side in SIDES]) < 0.05
