"""Cost of the page of a run and of a synthetic model with 32 × 32 heads: seconds to write it with
figures and tables, megabytes, seconds until the explorer is drawn in Chromium.

Run: python -m benchmarks.page [--run report], in an environment that has playwright, with Chromium
at CHROMIUM (default /usr/bin/chromium). The larger run repeats the heads and layers of the run;
every head has a separate KV head.
"""

import argparse
import os
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
import xarray as xr

import geostat as gs
from geostat.display.tree import with_display
from reports.page.page import write_page

SIZE = 32
ROUNDS = 5
READY = """async () => {
  const section = document.querySelector("[data-explorer]");
  await section.explorer.start();
  await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
  return performance.now();
}"""


def enlarged(tree: xr.DataTree) -> xr.DataTree:
    """Return the run expanded to SIZE layers, heads and KV heads."""
    groups = {}
    for name, node in tree.children.items():
        data = node.to_dataset()
        for dim in ("layer", "head", "kv_head"):
            if dim in data.dims:
                data = data.isel({dim: np.arange(SIZE) % data.sizes[dim]})
                data = data.assign_coords({dim: np.arange(SIZE)})
        if "kv_head_of_head" in data.coords:
            data = data.assign_coords(kv_head_of_head=("head", np.arange(SIZE)))
        groups[f"/{name}"] = data
    large = xr.DataTree.from_dict(groups)
    large.attrs = dict(tree.attrs)
    return large


def written(tree: xr.DataTree, out: Path) -> float:
    """Write the page with its files; return the seconds."""
    begun = time.perf_counter()
    write_page(with_display(tree), out)
    return time.perf_counter() - begun


def main() -> None:
    """Measure both pages and print the results."""
    from playwright.sync_api import sync_playwright

    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--run", default="report")
    run = gs.open(parser.parse_args().run)
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        seconds = {}
        for name, tree in (("run", run), (f"{SIZE} x {SIZE}", enlarged(run))):
            seconds[name] = written(tree, Path(folder) / name)
        browser = playwright.chromium.launch(
            executable_path=os.environ.get("CHROMIUM", "/usr/bin/chromium"),
            args=["--no-sandbox", "--disable-gpu", "--disable-background-networking"],
        )
        for name, taken in seconds.items():
            page = Path(folder) / name / "report.html"
            ready = []
            for _ in range(ROUNDS):
                view = browser.new_page()
                view.goto(page.as_uri(), wait_until="commit")
                view.wait_for_selector("[data-explorer]", state="attached")
                view.wait_for_function("document.querySelector('[data-explorer]').explorer")
                ready.append(view.evaluate(READY) / 1000)
                view.close()
            print(
                f"{name:8} written in {taken:5.1f} s, {page.stat().st_size / 1e6:5.2f} MB, drawn"
                f" after {statistics.median(ready):4.2f} s (median of {ROUNDS})"
            )
        browser.close()


if __name__ == "__main__":
    main()
