"""Where the page of a run is written, and what is said of a run that cannot be shown."""

from pathlib import Path

import pytest
import xarray as xr

from empirical.errors import StoreError
from geostat.errors import InputError, shown_whole
from geostat.runs.render import _place


@pytest.mark.parametrize("raised", [KeyError("a\nb\u202e"), RecursionError("x"), UnicodeError("y")])
def test_whatever_a_run_makes_go_wrong_becomes_one_line(raised: Exception):
    line = r"^r\.zarr: cannot be shown .* to make .*\.$"
    with pytest.raises(InputError, match=line) as told, shown_whole("r.zarr"):
        raise raised
    assert str(told.value).isprintable()


@pytest.mark.parametrize("raised", [InputError("a"), StoreError("b"), OSError("c"), MemoryError()])
def test_what_has_a_line_of_its_own_is_raised_as_it_is(raised: Exception):
    with pytest.raises(type(raised)) as told, shown_whole("r.zarr"):
        raise raised
    assert told.value is raised


def test_a_notebook_is_told_so_too():
    from geostat.runs.methods.accessor import RunMethods

    run = xr.DataTree.from_dict({"/verdicts": xr.Dataset(attrs={"claims": "no JSON"})})
    with pytest.raises(InputError, match="the run: cannot be shown"):
        repr(RunMethods(run))


@pytest.mark.parametrize("name", ["tables", "figures", "tables/tokens_40"])
def test_no_link_that_came_with_a_run_leads_files_elsewhere(tmp_path: Path, name: str):
    elsewhere, out = tmp_path / "elsewhere", tmp_path / "report"
    elsewhere.mkdir()
    (out / name).parent.mkdir(parents=True)
    (out / name).symlink_to(elsewhere)
    with pytest.raises(InputError, match=f"{name}: is a link, expected a folder to write in"):
        _place(None, out, "figures", "tables")
    if name == "tables":
        with pytest.raises(InputError, match="is a link"):
            _place(None, out / "tables")
        assert _place(out / "tables", out / "tables") == out / "tables"  # asked for by name
