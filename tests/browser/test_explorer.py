"""The explorer of heads in a browser, driven by Playwright: charts equal the run, controls are
reachable by keyboard, no request leaves the machine.

`make test-browser` installs the requirements. Skipped without Playwright or Chromium.
"""

import math
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
from support.pages import page_html
from support.reports_tree import run_tree
from support.spine import Finished

from geostat.display.tree import with_display
from reports.run import Run, claims_of

sync_api = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or ""
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not CHROMIUM, reason="no Chromium is installed"),
]
FLAGS = [
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update"),
]
START = "document.querySelector('[data-explorer]').explorer.start().then(() => 0)"
ROWS = """([name, data]) => {
  const { views } = document.querySelector("[data-explorer]").explorer;
  return views[name].data(data).map((row) => ({ ...row }));
}"""
WORDS = {2: "holds trivially", 1: "holds", -1: "fails", 0: "undetermined", -2: "no estimate"}
CONTROLS = ("quantity", "size", "layer", "head", "map", "score", "edition", "gram", "residuals")


def written(tree: xr.DataTree, folder: Path) -> Path:
    page = folder / "report.html"
    page.write_text(page_html(tree), encoding="utf-8")
    return page


@pytest.fixture(scope="module")
def tree(finished: Finished) -> xr.DataTree:
    return with_display(finished.tree)


@pytest.fixture(scope="module")
def run(tree: xr.DataTree) -> Run:
    return Run.of(tree)


@pytest.fixture(scope="module")
def html(tree: xr.DataTree, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tree, tmp_path_factory.mktemp("page"))


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with sync_api.sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield launched
        launched.close()


@pytest.fixture(autouse=True)
def closed(browser: Any) -> Iterator[None]:
    yield
    for context in browser.contexts:
        context.close()


class Opened:
    """A page with its explorer drawn, its console messages and its requests."""

    def __init__(self, browser: Any, html: Path, *, fragment: str = "", **options: Any) -> None:
        self.view = browser.new_page(**options)
        self.messages: list[str] = []
        self.requests: list[str] = []
        self.view.on("console", lambda message: self.messages.append(message.text))
        self.view.on("pageerror", lambda error: self.messages.append(str(error)))
        self.view.on("request", lambda request: self.requests.append(request.url))
        self.view.goto(html.as_uri() + fragment)
        self.view.wait_for_function("document.querySelector('[data-explorer]').explorer")
        self.view.evaluate(START)

    def rows(self, chart: str, data: str = "rows", **fields: Any) -> list[dict[str, Any]]:
        rows = self.view.evaluate(ROWS, [chart, data])
        return [row for row in rows if all(row[key] == value for key, value in fields.items())]

    def drawn(self, chart: str, series: str, key: str = "y", edge: str = "") -> np.ndarray:
        rows = self.rows(chart, series=series, edge=edge)
        return np.array([math.nan if row[key] is None else row[key] for row in rows])

    def set(self, name: str, value: str) -> None:
        control = self.view.locator(f".explorer .{name}")
        if control.evaluate("element => element.tagName") == "SELECT":
            control.select_option(value)
        else:
            control.fill(value)
            control.dispatch_event("change")
        self.view.wait_for_timeout(200)

    def result(self) -> str:
        return str(self.view.locator(".explorer .head-shown").inner_text())


@pytest.fixture
def opened(browser: Any, html: Path) -> Iterator[Opened]:
    page = Opened(browser, html, viewport={"width": 1280, "height": 900})
    yield page
    page.view.close()
    assert page.messages == []
    assert [url for url in page.requests if not url.startswith(("file:", "data:", "blob:"))] == []


def close(drawn: np.ndarray, stored: Any) -> None:
    """Assert that drawn values equal stored ones, to a few quantisation steps."""
    np.testing.assert_allclose(drawn, np.asarray(stored, dtype=float), atol=2e-4, rtol=3e-4)


def test_curves_of_the_first_head_equal_the_run(opened: Opened, run: Run):
    curves, envelope = run.head_curves.isel(layer=0), run.envelope.isel(layer=0, head=0)
    for chart, name, dim in (
        ("norm", "norm", "kv_head"),
        ("cosine", "cosine", "kv_head"),
        ("weight", "weight", "head"),
    ):
        for end in ("", "_lower", "_upper"):
            key = end.lstrip("_") or "y"
            close(opened.drawn(chart, "measured", key), curves[f"{name}{end}"].isel({dim: 0}))
    close(opened.drawn("score", "measured"), envelope["precision"])
    fitted = curves["cosine_fitted"].isel(kv_head=0).sel(form="exponential")
    close(opened.drawn("cosine", "exponential, printed"), fitted)
    starts = [row["x"] for row in opened.rows("weight", "marks")]
    known = {float(run.weights[name][0, 0]) for name in ("t1", "t2")}
    assert starts == pytest.approx(sorted(start for start in known if np.isfinite(start)), rel=1e-6)


def test_a_click_an_arrow_and_a_number_select_a_head(opened: Opened, run: Run):
    layers, heads = (run.capture[name].values for name in ("layer", "head"))
    opened.view.locator(".explorer .map").scroll_into_view_if_needed()
    cell = f".explorer .map .layer_0_marks path >> nth={heads.size + 2}"
    opened.view.locator(cell).click()
    opened.view.wait_for_timeout(200)
    assert opened.result().startswith(f"L{layers[1]}H{heads[2]},")
    assert opened.view.evaluate("location.hash") == f"#L{layers[1]}H{heads[2]}"
    selected = run.envelope.isel(layer=1, head=2)
    close(opened.drawn("score", "measured"), selected["precision"])
    opened.view.locator(".explorer .map").focus()
    opened.view.keyboard.press("ArrowLeft")
    opened.view.keyboard.press("ArrowUp")
    opened.view.wait_for_timeout(200)
    assert opened.result().startswith(f"L{layers[0]}H{heads[1]},")
    opened.set("layer", str(layers[1]))
    opened.set("head", str(heads[0]))
    assert opened.result().startswith(f"L{layers[1]}H{heads[0]},")
    opened.set("head", "977")
    assert opened.result().startswith(f"L{layers[1]}H{heads[0]},")


def test_a_link_to_a_head_opens_it(browser: Any, html: Path, run: Run):
    layer, head = run.capture["layer"].values[1], run.capture["head"].values[1]
    opened = Opened(browser, html, fragment=f"#L{layer}H{head}")
    opened.view.wait_for_timeout(300)
    assert opened.result().startswith(f"L{layer}H{head},")
    assert opened.view.evaluate("scrollY") > 300


def test_the_map_shows_the_selected_quantity(opened: Opened, run: Run):
    opened.set("quantity", "decay of similarity, gram exponential (similarity.beta)")
    selected = run.similarity.sel(gram="exponential").transpose("layer", "kv_head", ...)
    beta = selected["beta"].where(~selected["beta_at_bound"].astype(bool))
    close(np.array([row["value"] for row in opened.rows("map", "cells")]), beta.values.ravel())
    opened.set("quantity", "beta offset")
    assert "decay of similarity, gram offset" in opened.result()
    opened.set("quantity", "no such quantity")
    assert "decay of similarity, gram offset" in (
        opened.view.locator(".explorer .quantity").input_value()
    )
    assert opened.result() == "No quantity matches “no such quantity”."
    opened.set("quantity", "cosine")
    assert "verdict" not in opened.result()
    opened.set("quantity", "verdict cosines")
    assert "verdict: " in opened.result()
    opened.set("quantity", "NORMS.lam sink")
    assert opened.view.locator(".explorer .quantity").input_value().endswith("(norms.lam)")
    opened.set("quantity", "similarity.chosen")
    cells = opened.view.locator(".explorer .map .layer_0_marks path").all()
    words = [row["value"] for row in opened.rows("map", "cells")]
    assert len(set(words)) > 1
    colours = {(word, cell.get_attribute("fill")) for word, cell in zip(words, cells, strict=True)}
    assert len(colours) == len(set(words)) == len({colour for _, colour in colours})
    key = "bounds.sharp"
    (says,) = [claim["says"] for claim in claims_of(run.verdicts) if claim["key"] == key]
    opened.set("quantity", f"verdict: {says}")
    codes = run.verdicts["answer_head"].sel(claim_head=key).transpose("layer", "head").values
    cells = opened.rows("map", "cells")
    assert [row["value"] for row in cells] == [WORDS[code] for code in codes.ravel()]
    assert {row["symbol"] for row in cells} <= {"✓", "✗", "?", "–"}


def test_n_edition_gram_score_and_residuals_change_what_is_drawn(opened: Opened, run: Run):
    slider = opened.view.locator(".explorer .size")
    slider.fill("2")
    opened.view.wait_for_timeout(200)
    drawn = np.array([row["value"] for row in opened.rows("map", "cells")])
    close(drawn, run.envelope["precision"].transpose("layer", "head", ...)[..., 2].values.ravel())
    for edition in run.envelope["edition"].values:
        for gram in run.envelope["gram"].values[:2]:
            opened.set("score", "recall")
            assert opened.result().split(". ")[1].startswith("Recall at N = ")
            opened.set("edition", str(edition))
            opened.set("gram", str(gram))
            selected = run.envelope.sel(edition=edition, gram=gram).isel(layer=0, head=0)
            for side in ("lower", "upper"):
                bound = selected[f"recall_{side}"].clip(0, 1)
                close(opened.drawn("score", "bounds", side, edge="band"), bound)
                close(opened.drawn("score", "bounds", edge=side), bound)
            low, high = (
                float(selected[f"recall_{side}"].clip(0, 1)[2]) for side in ("lower", "upper")
            )
            if np.isfinite([low, high]).all():
                words = opened.result().partition(f"Bounds ({edition}, {gram} Gram): ")[2]
                limits = [float(word) for word in words.rstrip(".").split(" to ")]
                assert limits == pytest.approx([low, high], abs=1e-3)
    opened.view.locator(".explorer .residuals").check()
    opened.view.wait_for_timeout(300)
    selected = run.head_curves.isel(layer=0, kv_head=0)
    expected = selected["cosine"] - selected["cosine_fitted"].sel(form="exponential")
    close(opened.drawn("cosine", "exponential, printed"), expected)


def test_verdicts_of_a_head_have_estimates(opened: Opened, run: Run):
    rows = opened.view.locator(".explorer .answers tbody tr").all_inner_texts()
    assert len(rows) == run.verdicts.sizes["claim"]
    codes = run.verdicts["answer_kv_head"].isel(layer=0, kv_head=0)
    assert WORDS[int(codes[0])] in rows[0]
    estimate = float(run.verdicts["estimate_kv_head"].isel(layer=0, kv_head=0)[0])
    assert f"\t{estimate:.3g} (" in rows[0]


def test_selected_layers_are_compared_with_other_layers(opened: Opened, run: Run):
    opened.view.locator(".explorer .map").scroll_into_view_if_needed()
    cells = opened.view.locator(".explorer .map .layer_0_marks path")
    box = cells.nth(0).bounding_box()
    middle = box["y"] + box["height"] / 2
    opened.view.mouse.move(box["x"] + 3, middle)
    opened.view.mouse.down()
    opened.view.mouse.move(box["x"] + 0.6 * box["width"], middle, steps=4)
    opened.view.mouse.up()
    opened.view.wait_for_timeout(300)
    summary = opened.view.locator(".explorer .layers-shown").inner_text()
    layer, heads = run.capture["layer"].values[0], run.capture.sizes["head"]
    assert summary.startswith(f"Layers {layer} to {layer}: median ")
    assert f"({heads} heads)" in summary
    assert "Other layers: median " in summary


def test_tabs_reach_every_control_in_order(opened: Opened):
    opened.view.locator(".explorer .quantity").focus()
    reached = ["quantity"]
    for _ in range(14):
        opened.view.keyboard.press("Tab")
        reached.append(opened.view.evaluate("document.activeElement.className.split(' ')[0]"))
    assert [name for name in reached if name in CONTROLS] == list(CONTROLS)


def test_there_are_no_serious_accessibility_violations(opened: Opened):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe is missing")
    violations = axe.Axe().run(opened.view).response["violations"]
    serious = [rule for rule in violations if rule["impact"] in ("serious", "critical")]
    assert [(rule["id"], rule["nodes"][0]["html"][:120]) for rule in serious] == []


def test_sliders_of_the_what_if_panel_show_evaluated_bounds(opened: Opened, run: Run):
    data = run.sensitivity
    selected = data.isel(layer=0)
    parameters = [str(name) for name in data["parameter"].values]
    for name in parameters:
        slider = opened.view.locator(f".what-if-{name}")
        slider.focus()
        opened.view.keyboard.press("End")
        opened.view.wait_for_timeout(250)
        last = selected.sel(parameter=name).isel(step=-1)
        for side in ("lower", "upper"):
            drawn = opened.rows("what if", series="bounds if changed", edge=side)
            close(
                np.array([row["y"] for row in drawn], dtype=float),
                last[f"precision_{side}"].clip(0, 1),
            )
        values = [opened.view.locator(f".what-if-{other}").input_value() for other in parameters]
        assert values == ["4" if other == name else "2" for other in parameters]
    opened.view.locator(".what-if-score").select_option("recall")
    opened.view.locator(".what-if-n").fill("1")
    opened.view.wait_for_timeout(250)
    result = opened.view.locator(".what-if-result").inner_text()
    head = f"L{data['layer'].values[0]}H{int(data['of_head'][0])}"
    assert result.startswith(head)
    assert f"N = {data['n_envelope'].values[1]}. " in result
    assert f"At d = {float(last['value']):.0f}: " in result
    close(
        np.array([row["y"] for row in opened.rows("what if", series="measured")], dtype=float),
        selected["recall"],
    )
    opened.view.locator(".what-if-fit").click()
    opened.view.wait_for_timeout(250)
    assert opened.rows("what if", series="bounds if changed") == []
    fit = selected.sel(parameter="beta", step=0)["recall_upper"].clip(0, 1)
    drawn = opened.rows("what if", series="bounds as fitted", edge="upper")
    close(np.array([row["y"] for row in drawn], dtype=float), fit)


def test_the_what_if_panel_names_the_representative_head(opened: Opened, run: Run):
    representative, heads = int(run.sensitivity["of_head"][1]), run.capture["head"].values
    layer = run.capture["layer"].values[1]
    other = next(int(head) for head in heads if head != representative)
    opened.set("layer", str(layer))
    opened.set("head", str(other))
    result, title = (opened.view.locator(f".what-if-{name}") for name in ("result", "head"))
    assert result.inner_text().startswith(f"L{layer}H{representative}, N = ")
    assert title.inner_text() == (
        f"L{layer}H{representative} (the representative head of layer {layer}; selected:"
        f" L{layer}H{other})"
    )
    command = opened.view.locator(".what-if-again code").inner_text()
    assert command == (
        f"geostat whatif --from run.zarr --head L{layer}H{other} --gram offset --set"
        " beta=x0.5,x1,x2"
    )
    opened.set("head", str(representative))
    assert title.inner_text() == f"L{layer}H{representative}"


def test_keys_unfold_details_and_copy_a_command(browser: Any, html: Path):
    opened = Opened(browser, html)
    summary = opened.view.locator(".verdict summary").first
    assert not opened.view.locator(".verdict details p").first.is_visible()
    summary.focus()
    opened.view.keyboard.press("Enter")
    assert opened.view.locator(".verdict details p").first.is_visible()
    button = opened.view.locator("#about-norms .copy").first
    command = opened.view.locator("#about-norms .command code").first.inner_text()
    assert command.startswith("geostat figures ")
    button.focus()
    opened.view.keyboard.press("Enter")
    opened.view.wait_for_timeout(200)
    assert button.inner_text() in ("Copied", "Selected")
    assert opened.messages == []


def test_a_link_unfolds_its_target(browser: Any, html: Path):
    opened = Opened(browser, html, fragment="#table-norms")
    assert opened.view.locator("#table-norms table").is_visible()
    assert not opened.view.locator("#table-similarity table").is_visible()
    opened.view.locator(".result h3 a", has_text="Similarity").click()
    assert opened.view.evaluate("location.hash") == "#about-similarity"


def test_a_fit_at_a_limit_is_marked_and_has_no_colour(
    browser: Any, tree: xr.DataTree, tmp_path: Path
):
    data = tree["similarity"].to_dataset().copy(deep=True)
    index = {"gram": "offset", "layer": data["layer"].values[0], "kv_head": 0}
    data["beta"].loc[index], data["beta_at_bound"].loc[index] = 20.0, True
    opened = Opened(browser, written(tree.assign({"similarity": xr.DataTree(data)}), tmp_path))
    opened.set("quantity", "decay of similarity, gram offset (similarity.beta)")
    cell = next(row for row in opened.rows("map", "cells") if not row["i"] and not row["j"])
    assert (cell["value"], cell["symbol"]) == (None, "]")
    assert "the fit stopped at its limit 20" in opened.result()
    assert "no estimate" in opened.view.locator(".explorer .marks-shown").inner_text()


@pytest.mark.parametrize("width", [390, 700, 1280])
def test_the_page_is_as_wide_as_the_window(browser: Any, html: Path, width: int):
    opened = Opened(browser, html, viewport={"width": width, "height": 900})
    assert opened.view.evaluate("document.documentElement.scrollWidth") <= width
    scrolls = "[...document.querySelectorAll('.plot:not(.stacked)')].map((plot) => plot.tabIndex)"
    assert set(opened.view.evaluate(scrolls)) == {0 if width == 390 else -1}


def test_charts_use_the_colours_of_a_dark_page(browser: Any, html: Path):
    opened = Opened(browser, html, color_scheme="light")
    axis = ".explorer [data-curve=norm] text"
    light = opened.view.locator(axis).first.get_attribute("fill")
    opened.view.emulate_media(color_scheme="dark")
    opened.view.wait_for_timeout(800)
    assert opened.view.locator(axis).first.get_attribute("fill") != light
    assert opened.messages == []


def test_layers_of_each_t_have_a_separate_explorer(browser: Any, tmp_path: Path):
    opened = Opened(browser, written(run_tree(window=40), tmp_path))
    sections = "[...document.querySelectorAll('[data-explorer]')]"
    opened.view.wait_for_function(f"{sections}.every((section) => section.explorer)")
    starts = f"{sections}.map((section) => section.explorer.start())"
    assert opened.view.evaluate(f"Promise.all({starts}).then((all) => all.length)") == 2
    assert len(set(opened.view.locator(".explorer .head-shown").all_inner_texts())) == 2
    assert opened.messages == []


def test_one_document_draws_without_bands(browser: Any, tmp_path: Path):
    opened = Opened(browser, written(run_tree(documents=1, null=False), tmp_path))
    assert {row["lower"] for row in opened.rows("norm")} == {None}
    assert opened.messages == []


def test_a_curve_missing_in_the_first_head_keeps_its_colour(
    browser: Any, tree: xr.DataTree, tmp_path: Path
):
    curves = tree["head_curves"].to_dataset().copy(deep=True)
    curves["cosine_fitted"].loc[{"form": "exponential"}][..., 0, :] = np.nan
    opened = Opened(browser, written(tree.assign({"head_curves": xr.DataTree(curves)}), tmp_path))
    assert not opened.rows("cosine", series="exponential, printed")
    opened.set("head", str(tree["capture"]["head"].values[-1]))
    assert opened.rows("cosine", series="exponential, printed")
    lines = opened.view.locator("[data-curve=cosine] .mark-line path").all()
    strokes = [line.get_attribute("stroke") for line in lines]
    assert None not in strokes
    assert len(set(strokes)) == len(strokes)


def test_a_printed_page_has_a_note_instead_of_the_map(browser: Any, html: Path):
    opened = Opened(browser, html)
    opened.view.emulate_media(media="print")
    assert not opened.view.locator(".explorer .map").is_visible()
    assert opened.view.locator(".explorer .paper-only").is_visible()


@pytest.mark.parametrize("how", ["opened", "clicked at once"])
def test_a_link_to_a_section_stays_on_target_while_charts_are_drawn(browser, html: Path, how):
    view = browser.new_page(viewport={"width": 1280, "height": 900})
    if how == "opened":
        view.goto(f"{html.as_uri()}#about-bounds")
    else:
        view.goto(html.as_uri())
        view.locator('nav a[href="#about-bounds"]').click()
    view.evaluate(START)
    view.wait_for_function(
        "document.querySelectorAll('.explorer .view canvas, .explorer .view svg').length > 3"
    )
    view.wait_for_timeout(1500)  # smooth scrolling
    top = view.locator("#about-bounds").evaluate("section => section.getBoundingClientRect().top")
    assert 0 <= top < 80
    view.mouse.wheel(0, -900)
    view.wait_for_timeout(500)
    before = view.evaluate("scrollY")
    view.evaluate("document.body.style.paddingBottom = '50px'")  # later growth does not scroll
    view.wait_for_timeout(300)
    assert view.evaluate("scrollY") == before
