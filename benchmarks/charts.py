"""Comparison of chart libraries for the report page: size of a page, time until it is ready, time
from selecting a head until its curves are drawn.

Run: python -m benchmarks.charts, in an environment that has bokeh, plotly, vl-convert-python and
playwright, and a Chromium at CHROMIUM (default /usr/bin/chromium). Each library draws a map of 32
layers × 32 heads, and four charts with three curves of 60 points for the selected head, from one
packed array of all heads. Libraries alternate; results are medians over rounds.
"""

import base64
import os
import statistics
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

ROUNDS = 7
HEADS = 32
CHARTS, CURVES, POINTS = 4, 3, 60
PACKED = f"""
const packed = document.getElementById("packed").textContent.trim();
const curves = new Float32Array(Uint8Array.from(atob(packed), (c) => c.charCodeAt(0)).buffer);
const curve = (head, chart, line) => {{
  const start = ((head * {CHARTS} + chart) * {CURVES} + line) * {POINTS};
  return curves.subarray(start, start + {POINTS});
}};
const n = Float32Array.from({{ length: {POINTS} }}, (_, i) => i);
const drawn = () => new Promise((done) =>
  requestAnimationFrame(() => requestAnimationFrame(() => done(performance.now()))));
"""


def curves() -> NDArray[np.float32]:
    """Return synthetic curves, (head, chart, curve, point)."""
    steps = np.random.default_rng(0).normal(size=(HEADS**2, CHARTS, CURVES, POINTS))
    return steps.cumsum(axis=-1).astype(np.float32)


def page(libraries: list[str], body: str, script: str, data: NDArray[np.float32]) -> str:
    """Return a self-contained page."""
    packed = base64.b64encode(data.tobytes()).decode()
    inline = "".join(f"<script>{library}</script>" for library in libraries)
    return (
        f"<!DOCTYPE html><meta charset=utf-8><title>charts</title>{inline}{body}"
        f'<script type="text/plain" id="packed">{packed}</script>'
        f"<script>(() => {{{PACKED}{script}\n"
        "Object.assign(window, { ready, pick }); })();</script>"
    )


def bokeh_page(data: NDArray[np.float32]) -> str:
    """Return the Bokeh page: charts declared in Python, data replaced by JavaScript."""
    from bokeh.embed import components
    from bokeh.models import ColumnDataSource
    from bokeh.plotting import figure
    from bokeh.resources import INLINE
    from bokeh.transform import linear_cmap

    cells = np.indices((HEADS, HEADS)).reshape(2, -1)
    plot = figure(width=480, height=480, tools="tap,hover")
    source = ColumnDataSource({"x": cells[1], "y": cells[0], "z": data[:, 0, 0, -1]})
    colours = linear_cmap("z", "Viridis256", float(data.min()), float(data.max()))
    plot.rect("x", "y", 1, 1, source=source, fill_color=colours, line_color=None)
    figures = {"map": plot}
    for chart in range(CHARTS):
        figures[f"chart{chart}"] = figure(width=360, height=220, tools="hover")
        for line in range(CURVES):
            source = ColumnDataSource({"x": np.arange(POINTS), "y": data[0, chart, line]})
            source.name = f"s{chart}{line}"
            figures[f"chart{chart}"].line("x", "y", source=source)
    script, places = components(figures, wrap_script=False)
    return page(
        list(INLINE.js_raw[:1]),
        "".join(places.values()),
        script
        + """
        const ready = (async () => {
          while (!window.Bokeh?.documents?.length || !document.querySelector(".bk-Figure"))
            await drawn();
          return drawn();
        })();
        const pick = (head) => {
          for (let c = 0; c < 4; c++) for (let l = 0; l < 3; l++)
            for (const doc of Bokeh.documents) {
              const source = doc.get_model_by_name(`s${c}${l}`);
              if (source) source.data = { x: n, y: curve(head, c, l) };
            }
          return drawn();
        };
        """,
        data,
    )


def plotly_page(data: NDArray[np.float32]) -> str:
    """Return the Plotly page with the full bundle, the only one in its Python package."""
    from plotly.offline import get_plotlyjs

    return page(
        [get_plotlyjs()],
        "<div id=map></div>" + "".join(f"<div id=chart{c}></div>" for c in range(CHARTS)),
        """
        const layout = { width: 360, height: 220 };
        const lines = (head, c) =>
          [0, 1, 2].map((l) => ({ type: "scatter", mode: "lines", x: n, y: curve(head, c, l) }));
        const rows = Array.from({ length: 32 }, (_, i) =>
          Array.from({ length: 32 }, (_, j) => curve(32 * i + j, 0, 0)[59]));
        const ready = (async () => {
          await Plotly.newPlot("map", [{ type: "heatmap", z: rows }], { width: 480, height: 480 });
          for (let c = 0; c < 4; c++) await Plotly.newPlot(`chart${c}`, lines(0, c), layout);
          return drawn();
        })();
        const pick = async (head) => {
          for (let c = 0; c < 4; c++) await Plotly.react(`chart${c}`, lines(head, c), layout);
          return drawn();
        };
        """,
        data,
    )


def vega_page(data: NDArray[np.float32]) -> str:
    """Return the Vega-Lite page with the bundle that altair uses."""
    import vl_convert

    return page(
        [vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;")],
        "<div id=map></div>" + "".join(f"<div id=chart{c}></div>" for c in range(CHARTS)),
        """
        const rows = (head, c) => [0, 1, 2].flatMap((l) =>
          Array.from(curve(head, c, l), (y, x) => ({ x, y, l })));
        const cells = Array.from({ length: 1024 }, (_, i) =>
          ({ x: i % 32, y: Math.floor(i / 32), z: curve(i, 0, 0)[59] }));
        const field = (field, type = "quantitative") => ({ field, type });
        const views = [];
        const ready = (async () => {
          await vegaEmbed("#map", { data: { values: cells }, mark: "rect", width: 400, height: 400,
            encoding: { x: field("x", "ordinal"), y: field("y", "ordinal"), color: field("z") } });
          for (let c = 0; c < 4; c++) views.push((await vegaEmbed(`#chart${c}`, {
            data: { name: "rows", values: rows(0, c) }, mark: "line", width: 300, height: 160,
            encoding: { x: field("x"), y: field("y"), color: field("l", "nominal") } })).view);
          return drawn();
        })();
        const pick = async (head) => {
          for (let c = 0; c < 4; c++)
            await views[c].data("rows", rows(head, c)).runAsync();
          return drawn();
        };
        """,
        data,
    )


LIBRARIES: dict[str, Callable[[NDArray[np.float32]], str]] = {
    "bokeh": bokeh_page,
    "plotly": plotly_page,
    "vega-lite": vega_page,
}


def main() -> None:
    """Measure every library and print the table."""
    from playwright.sync_api import sync_playwright

    data = curves()
    empty = len(page([], "", "let ready, pick;", data))
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        pages = {}
        for name, build in LIBRARIES.items():
            pages[name] = Path(folder) / f"{name}.html"
            pages[name].write_text(build(data), encoding="utf-8")
        browser = playwright.chromium.launch(
            executable_path=os.environ.get("CHROMIUM", "/usr/bin/chromium"),
            args=["--no-sandbox", "--disable-gpu", "--disable-background-networking"],
        )
        times: dict[str, list[tuple[float, float]]] = {name: [] for name in LIBRARIES}
        order = list(LIBRARIES)
        for turn in range(ROUNDS):
            for name in order[turn % len(order) :] + order[: turn % len(order)]:
                view = browser.new_page()
                view.goto(pages[name].as_uri())
                ready = view.evaluate("ready")
                picked = view.evaluate(
                    """async () => {
                      const all = [];
                      for (const head of [5, 300, 1000]) {
                        const from = performance.now();
                        all.push((await pick(head)) - from);
                      }
                      return all.sort((a, b) => a - b)[1];
                    }"""
                )
                times[name].append((ready, picked))
                view.close()
        browser.close()
        for name, of in times.items():
            size = (len(pages[name].read_bytes()) - empty) / 1e6
            ready, picked = (statistics.median(column) for column in zip(*of, strict=True))
            print(f"{name:10} {size:5.2f} MB  ready {ready:5.0f} ms  picked {picked:4.0f} ms")


if __name__ == "__main__":
    main()
