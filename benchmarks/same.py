"""Two runs compared, value by value: after a change that is to move no number,
`python -m benchmarks.same BEFORE AFTER`.

BEFORE and AFTER are folders that `geostat run` wrote. Prints every array, attribute and table that
differs, and ends with 1 if an array or a table does. Run it with `--ignore NAME` for attributes and
tables that were changed on purpose.
"""

import argparse
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

OWN = {"git_commit", "manifest"}
"""Root attributes that differ between equal runs of two commits."""


def arrays(before: xr.Dataset, after: xr.Dataset) -> Iterator[str]:
    """Yield each variable that one lacks, or whose dims, type or values differ bit for bit (NaN
    equals NaN).
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
    """Yield each table that one lacks or whose text differs."""
    names = {path.name for folder in (before, after) for path in (folder / "tables").glob("*")}
    for name in sorted(names - ignored):
        old, new = ((folder / "tables" / name) for folder in (before, after))
        if not (old.exists() and new.exists()) or old.read_bytes() != new.read_bytes():
            yield f"tables/{name}"


def main() -> None:
    """Compare and print."""
    parser = argparse.ArgumentParser(
        description="Compare two runs of `geostat run`, value by value."
    )
    parser.add_argument("before", type=Path)
    parser.add_argument("after", type=Path)
    parser.add_argument(
        "--ignore", nargs="*", default=[], help="attributes and tables that were changed on purpose"
    )
    asked = parser.parse_args()
    ignored = OWN | set(asked.ignore)
    old, new = (
        xr.open_datatree(out / "run.zarr", engine="zarr") for out in (asked.before, asked.after)
    )
    unlike = list(tables(asked.before, asked.after, ignored))
    said = [f"/: {line}" for line in attributes(old.attrs, new.attrs, ignored)]
    for group in sorted({*old.children, *new.children}):
        if group not in old.children or group not in new.children:
            unlike.append(f"/{group}: only {'after' if group in new.children else 'before'}")
            continue
        before, after = old[group].to_dataset(), new[group].to_dataset()
        unlike += [f"/{group}/{line}" for line in arrays(before, after)]
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
