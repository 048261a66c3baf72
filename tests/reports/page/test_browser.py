"""The page in a browser: filters by click and by text, and captions without raw LaTeX."""

import json
import re
import shutil
import subprocess
from base64 import b64encode
from hashlib import sha256
from html import unescape
from pathlib import Path
from typing import Any

import pytest
import xarray as xr
from support.experiments import full
from support.hostile import hostile_tree
from support.pages import page_html
from support.spine import Finished

from geostat.display.tree import with_display
from geostat.topics.claims import CLAIMS

NAMES = ("chromium", "chromium-browser", "google-chrome")
BROWSER = next(filter(None, map(shutil.which, NAMES)), None)
SECONDS = 600
FILTER_SCRIPT = """
<script>
  const all = (id) => [...document.querySelectorAll(`#${id} tbody tr`)];
  const rows = (id) => all(id).filter((row) => !row.hidden);
  const words = (row) => [row.cells[0].textContent, row.cells[1].textContent];
  const shown = (id) => rows(id).map(words);
  const typed = (id, words) => {
    const input = document.querySelector(`#${id} .filter-text`);
    input.value = words;
    input.dispatchEvent(new Event("input"));
    return shown(id);
  };
  const results = {};
  for (const link of document.querySelectorAll("a[data-show]")) {
    link.click();
    results[link.dataset.show] = shown("table-verdict_heads");
  }
  for (const words of ["norms.cv L1V0", "norms.", "norms.cv_p", "L1H1"]) {
    results[`verdicts ${words}`] = typed("table-verdict_heads", words);
  }
  for (const words of ["L1H3", "l1h", "H3", "L9H9", ""]) {
    results[`heads ${words}`] = typed("heads", words);
  }
  results.sorted = [...document.querySelectorAll("th button")].map((button) => {
    button.click();
    return button.closest("th").getAttribute("aria-sort");
  });
  const output = document.createElement("pre");
  output.id = "output";
  output.textContent = JSON.stringify(results);
  document.body.append(output);
</script>
"""


@pytest.fixture(scope="module")
def html(tree: xr.DataTree) -> str:
    return page_html(tree)


POLICY_SCRIPT = """
<script>
  setTimeout(() => {
    const results = { canary: typeof window.canary, evaluated: true, blocked: [] };
    const record = (event) => results.blocked.push(event.effectiveDirective);
    addEventListener("securitypolicyviolation", record);
    try { new Function("return 1")(); } catch { results.evaluated = false; }
    results.result = document.querySelector(".explorer .head-shown").textContent;
    const image = document.createElement("img");
    image.src = "https://x.invalid/";
    document.body.append(image);
    setTimeout(() => {
      const output = Object.assign(document.createElement("pre"), { id: "output" });
      output.textContent = JSON.stringify(results);
      document.body.append(output);
    }, 500);
  }, 5000);
</script>
"""
in_a_browser = pytest.mark.skipif(BROWSER is None, reason="no browser is installed (chromium)")


def run_script(html: str, element: str, folder: Path) -> Any:
    """Return the results of a script that is added to a page and to its policy."""
    script = re.search(r"<script>(.*)</script>", element, re.DOTALL)
    assert script is not None
    digest = b64encode(sha256(script[1].encode("utf-8")).digest()).decode("ascii")
    allowed = f"script-src &#39;sha256-{digest}&#39; "
    assert html.count("script-src ") == 1
    page = folder / "report.html"
    page.write_text(
        html.replace("script-src ", allowed).replace("</body>", f"{element}</body>"),
        encoding="utf-8",
    )
    flags = ("--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=20000")
    profile = f"--user-data-dir={folder / 'user'}"
    command = [str(BROWSER), *flags, profile, "--dump-dom", page.as_uri()]
    process = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    output = re.search(r'<pre id="output">(.*?)</pre>', process.stdout, re.DOTALL)
    assert output is not None, process.stderr[-2000:]
    return json.loads(unescape(output[1]))


@pytest.mark.slow
@in_a_browser
def test_a_page_with_hostile_texts_runs_no_foreign_script_and_draws_its_heads(
    finished: Finished, tmp_path: Path
):
    html = page_html(with_display(hostile_tree(finished.tree)))
    results = run_script(html, POLICY_SCRIPT, tmp_path)
    assert results["canary"] == "undefined"
    assert not results["evaluated"]
    assert "img-src" in results["blocked"]
    assert results["result"].startswith("L0H0, KV head 0.")


@pytest.mark.slow
@in_a_browser
def test_a_click_or_a_typed_name_filters_to_a_claim_or_head(
    html: str, finished: Finished, tmp_path: Path
):
    results = run_script(html, FILTER_SCRIPT, tmp_path)
    sizes = finished.tree["capture"].sizes
    heads = {
        unit: [
            f"L{layer}{letter}{index}"
            for layer in range(sizes["layer"])
            for index in range(sizes[unit])
        ]
        for unit, letter in (("head", "H"), ("kv_head", "V"))
    }
    for claim in CLAIMS:
        assert results[claim.key] == [[claim.short, name] for name in heads[claim.of]], claim.key
    short = {claim.key: claim.short for claim in CLAIMS}
    assert results["verdicts norms.cv L1V0"] == [[short["norms.cv"], "L1V0"]]
    assert {words for words, _ in results["verdicts norms."]} == {
        words for key, words in short.items() if key.startswith("norms.")
    }
    assert {words for words, _ in results["verdicts norms.cv_p"]} == {
        short["norms.cv_profile"],
        short["norms.cv_position"],
    }
    of_heads = [[claim.short, "L1H1"] for claim in CLAIMS if claim.of == "head"]
    assert results["verdicts L1H1"] == of_heads
    assert results["heads L1H3"] == [["1", "3"]]
    assert results["heads l1h"] == [["1", str(index)] for index in range(sizes["head"])]
    assert results["heads H3"] == [[str(index), "3"] for index in range(sizes["layer"])]
    assert results["heads L9H9"] == []
    assert len(results["heads "]) == len(heads["head"])
    assert set(results["sorted"]) == {"ascending"}


def words_of(html: str) -> str:
    """Return the text of a page, without figures, scripts and tags."""
    plain = re.sub(
        r"<svg.*?</svg>|<script.*?</script>|<style.*?</style>", "", html, flags=re.DOTALL
    )
    return unescape(re.sub(r"<[^>]+>", "", plain))


@pytest.mark.slow
def test_the_page_has_no_raw_latex_and_no_empty_button(html: str):
    for page in (html, page_html(full())):
        text = words_of(page)
        for raw in (r"\$\S", r"\\[A-Za-z]", r"\^", r"sqrt", r"\b[vα]_L"):
            assert re.search(raw, text) is None, text[re.search(raw, text).start() - 60 :][:120]
        assert not re.search(r"<button[^>]*>\s*</button>", page)
    assert "lag k as e<sup>−βk</sup>" in html
    assert "distinct ρ₀" in page
