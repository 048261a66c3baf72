"""Differences between two runs, value by value, to test that a change leaves every number
unchanged.

Run: `python -m benchmarks.same BEFORE AFTER`, with folders written by `geostat run`. The script
prints every array, attribute and table that differs, and exits with 1 if an array or a table does.
Names of older schemas are translated (`empirical.schema.RENAMED`). `--ignore NAME` excludes
attributes and tables that were changed on purpose; `--rtol R` accepts differences of floating-point
numbers up to R, relative above 1 and absolute below, for changes of the order of operations.
"""

import argparse
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from empirical.schema import with_current_names

OWN = {"git_commit", "manifest"}
"""Root attributes that differ between equal runs of two commits."""


def arrays(before: xr.Dataset, after: xr.Dataset, rtol: float) -> Iterator[str]:
    """Yield each variable that is missing in one run, or whose dims, dtype or values differ, bit
    for bit or by more than `rtol` (NaN equals NaN).
    """
    for name in sorted({*map(str, before.variables), *map(str, after.variables)}):
        if name not in before.variables or name not in after.variables:
            yield f"{name}: only {'after' if name in after.variables else 'before'}"
            continue
        old, new = before.variables[name], after.variables[name]
        if (old.dims, old.shape, old.dtype) != (new.dims, new.shape, new.dtype):
            yield (
                f"{name}: {old.dims} {old.shape} {old.dtype} before, {new.dims} {new.shape}"
                f" {new.dtype} after"
            )
        elif not np.array_equal(old.values, new.values, equal_nan=old.dtype.kind in "fc"):
            if old.dtype.kind == "f" and np.allclose(
                new.values, old.values, rtol=rtol, atol=rtol, equal_nan=True
            ):
                continue
            apart = (
                np.nanmax(np.abs(old.values - new.values))
                if old.dtype.kind == "f"
                else "no numbers"
            )
            yield f"{name}: values differ (by at most {apart})"


def attributes(
    before: Mapping[Any, Any], after: Mapping[Any, Any], ignored: set[str]
) -> Iterator[str]:
    """Yield each attribute that differs."""
    for name in sorted({*before, *after} - ignored):
        if before.get(name) != after.get(name):
            yield f"{name}: {before.get(name)!r} before, {after.get(name)!r} after"


def tables(before: Path, after: Path, ignored: set[str]) -> Iterator[str]:
    """Yield each table that is missing in one run or whose text differs."""
    names = {
        str(path.relative_to(folder / "tables"))
        for folder in (before, after)
        for path in (folder / "tables").rglob("*.*")
    }
    for name in sorted(names - ignored):
        old, new = ((folder / "tables" / name) for folder in (before, after))
        if not (old.exists() and new.exists()) or old.read_bytes() != new.read_bytes():
            yield f"tables/{name}"


def main() -> None:
    """Compare the runs and print the differences."""
    parser = argparse.ArgumentParser(
        description="Compare two runs of `geostat run`, value by value."
    )
    parser.add_argument("before", type=Path)
    parser.add_argument("after", type=Path)
    parser.add_argument(
        "--ignore", nargs="*", default=[], help="attributes and tables that were changed on purpose"
    )
    parser.add_argument("--rtol", type=float, default=0.0, help="accepted relative difference")
    options = parser.parse_args()
    ignored = OWN | set(options.ignore)
    old, new = (
        xr.open_datatree(out / "run.zarr", engine="zarr") for out in (options.before, options.after)
    )
    unlike = list(tables(options.before, options.after, ignored))
    said = [f"/: {line}" for line in attributes(old.attrs, new.attrs, ignored)]
    for group in sorted({*old.children, *new.children}):
        if group not in old.children or group not in new.children:
            unlike.append(f"/{group}: only {'after' if group in new.children else 'before'}")
            continue
        before, after = (with_current_names(group, run[group].to_dataset()) for run in (old, new))
        unlike += [f"/{group}/{line}" for line in arrays(before, after, options.rtol)]
        said += [f"/{group}: {line}" for line in attributes(before.attrs, after.attrs, ignored)]
        for name in sorted({*map(str, before.variables)} & {*map(str, after.variables)}):
            said += [
                f"/{group}/{name}: {line}"
                for line in attributes(before[name].attrs, after[name].attrs, ignored)
            ]
    for line in [*unlike, *said]:
        print(line)
    groups = len(set(old.children) & set(new.children))
    print(
        f"{groups} groups compared: {len(unlike)} arrays or tables and {len(said)} attributes"
        " differ"
    )
    sys.exit(bool(unlike))


if __name__ == "__main__":
    main()
