"""Stores of other schemas: earlier names are read as today's, later schemas are refused."""

import numpy as np
import pytest
import xarray as xr
from support.raising import refused
from support.stores import PLAN, add, store_of

from empirical.schema import SCHEMA_VERSION, with_current_names
from empirical.store.store import Store
from empirical.store.stored_run import StoredRun

EARLIER = {
    "similarity": (("beta", "loss_left_out", "loss_left_out_se"), ("beta", "loss_held_out")),
    "weights": (("form_loss_left_out", "rival_loss_left_out_se"), ("form_loss_held_out",)),
    "heads": (("told", "stability_left_out"), ("classified", "stability_leave_one_out")),
    "ablation": (("told", "told_lower", "told_heads"), ("r2_held_out_layers_lower", "r2_heads")),
}


@pytest.mark.parametrize("group", EARLIER)
def test_variables_of_schema_4_have_their_current_names(group):
    earlier, current = EARLIER[group]
    data = xr.Dataset({name: ("layer", np.arange(3.0)) for name in earlier})
    renamed = with_current_names(group, data)
    assert set(current) <= set(renamed.data_vars)
    assert not [name for name in renamed.data_vars if "left_out" in name or "told" in name]
    xr.testing.assert_identical(with_current_names(group, renamed), renamed)


def test_labels_of_schema_4_have_their_current_names():
    labels = ("measure", ["pearson", "value_heads"], {"long_name": "measure of correlation"})
    data = xr.Dataset({"correlation": ("measure", [0.1, 0.2])}, coords={"measure": labels})
    renamed = with_current_names("sink", data)
    assert renamed["measure"].values.tolist() == ["pearson", "kv_heads"]
    assert renamed["measure"].attrs == data["measure"].attrs
    dims = xr.Dataset({"told": (("outcome", "told_by"), np.zeros((2, 3)))})
    renamed = with_current_names("ablation", dims)
    assert renamed["r2_held_out_layers"].dims == ("outcome", "predictor")


def test_results_of_an_earlier_schema_are_read_by_their_current_names(tmp_path):
    store = store_of(tmp_path / "run.zarr", [0])
    store.settle()
    store.put({"norms": xr.Dataset({"loss_left_out": ("layer", [0.5])})})
    assert StoredRun.open(store.path).read("norms")["loss_held_out"].values.tolist() == [0.5]


def test_a_later_schema_is_refused(tmp_path):
    later = {"schema_version": SCHEMA_VERSION + 1}
    store = Store.create(tmp_path / "run.zarr", provenance=later, plan=PLAN, documents=1)
    add(store, [0])
    store.settle()
    with refused(r"schema 7, expected at most 6\. Install a newer geostat"):
        StoredRun.open(store.path)
