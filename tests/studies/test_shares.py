"""Study of the intervals of Precision and Recall: populations and printed rows."""

import numpy as np
import xarray as xr

from studies import shares


def test_every_row_has_the_coverage_of_both_intervals(capsys):
    shares.main(["--samples", "4"])
    rows = capsys.readouterr().out.splitlines()
    assert len(rows) == 2 * len(shares.DOCUMENTS) * shares.SIZES.size
    for row in rows:
        t, wilson = (float(row.split(name)[1].split("%")[0]) for name in (" t ", "Wilson"))
        assert t < 97 < wilson + 15


def test_the_population_of_a_run_has_every_query(monkeypatch, finished):
    run = finished.tree
    monkeypatch.setattr(shares.gs, "open", lambda _: run)
    monkeypatch.setattr(shares, "SIZES", np.array([2, 3]))
    values = shares.of_run(finished.out)["recall"]
    queries = run["queries"].to_dataset()["recall_by_query"].sel(n=[2, 3])
    assert isinstance(queries, xr.DataArray)
    assert values.shape == (3, queries.sizes["query"], 16, 2)
    np.testing.assert_allclose(values.mean(), queries.mean(), rtol=1e-6)
    sample = shares.sampled(values, 5, 1, np.random.default_rng(0))
    assert sample.shape == (5, 16, 2)
    assert np.isin(sample, values).all()
