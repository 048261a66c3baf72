"""The page in a browser: what a click and a typed word leave visible, and captions without raw
LaTeX.
"""

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
from support.experiments import full
from support.hostile import hostile_tree
from support.pages import page_html
from support.spine import Finished

from geostat.display.tree import with_display
from geostat.verdicts.claims import CLAIMS
from reports.text.latex import prose_html

BROWSER = next(
    (
        found
        for name in ("chromium", "chromium-browser", "google-chrome")
        if (found := shutil.which(name))
    ),
    None,
)
SECONDS = 600
ASKED = """
<script>
  const all = (place) => [...document.querySelectorAll(`#${place} tbody tr`)];
  const rows = (place) => all(place).filter((row) => !row.hidden);
  const words = (row) => [row.cells[0].textContent, row.cells[1].textContent];
  const shown = (place) => rows(place).map(words);
  const typed = (place, words) => {
    const input = document.querySelector(`#${place} .filter-text`);
    input.value = words;
    input.dispatchEvent(new Event("input"));
    return shown(place);
  };
  const found = {};
  for (const link of document.querySelectorAll("a[data-show]")) {
    link.click();
    found[link.dataset.show] = shown("table-verdict_heads");
  }
  for (const words of ["norms.cv L1V0", "norms.", "norms.cv_p", "L1H1"]) {
    found[`verdicts ${words}`] = typed("table-verdict_heads", words);
  }
  for (const words of ["L1H3", "l1h", "H3", "L9H9", ""]) {
    found[`heads ${words}`] = typed("heads", words);
  }
  found.sorted = [...document.querySelectorAll("th button")].map((button) => {
    button.click();
    return button.closest("th").getAttribute("aria-sort");
  });
  const told = document.createElement("pre");
  told.id = "told";
  told.textContent = JSON.stringify(found);
  document.body.append(told);
</script>
"""


@pytest.fixture(scope="module")
def html(finished: Finished) -> str:
    return page_html(with_display(finished.tree))


DRAWN = """
<script>
  setTimeout(() => {
    const found = { canary: typeof window.canary, evaluated: true, blocked: [] };
    const heard = (one) => found.blocked.push(one.effectiveDirective);
    addEventListener("securitypolicyviolation", heard);
    try { new Function("return 1")(); } catch { found.evaluated = false; }
    found.told = document.querySelector(".explorer .told").textContent;
    const image = document.createElement("img");
    image.src = "https://x.invalid/";
    document.body.append(image);
    setTimeout(() => {
      const told = Object.assign(document.createElement("pre"), { id: "told" });
      told.textContent = JSON.stringify(found);
      document.body.append(told);
    }, 500);
  }, 5000);
</script>
"""
in_a_browser = pytest.mark.skipif(BROWSER is None, reason="no browser is installed (chromium)")


def told_by(html: str, asked: str, folder: Path) -> Any:
    """What a script finds in a page, whose policy lets it run."""
    script = re.search(r"<script>(.*)</script>", asked, re.DOTALL)
    assert script is not None
    digest = b64encode(sha256(script[1].encode("utf-8")).digest()).decode("ascii")
    allowed = f"script-src &#39;sha256-{digest}&#39; "
    assert html.count("script-src ") == 1
    page = folder / "report.html"
    page.write_text(
        html.replace("script-src ", allowed).replace("</body>", f"{asked}</body>"), encoding="utf-8"
    )
    command = [
        str(BROWSER),
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--virtual-time-budget=20000",
        f"--user-data-dir={folder / 'user'}",
        "--dump-dom",
        page.as_uri(),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    told = re.search(r'<pre id="told">(.*?)</pre>', done.stdout, re.DOTALL)
    assert told is not None, done.stderr[-2000:]
    return json.loads(unescape(told[1]))


@pytest.mark.slow
@in_a_browser
def test_a_page_of_hostile_texts_runs_none_of_them_and_reads_its_heads(
    finished: Finished, tmp_path: Path
):
    found = told_by(page_html(with_display(hostile_tree(finished.tree))), DRAWN, tmp_path)
    assert found["canary"] == "undefined"
    assert not found["evaluated"]
    assert "img-src" in found["blocked"]
    assert found["told"].startswith("L0H0, value head 0.")


@pytest.mark.slow
@in_a_browser
def test_a_click_or_a_typed_name_shows_that_claim_or_head_alone(
    html: str, finished: Finished, tmp_path: Path
):
    found = told_by(html, ASKED, tmp_path)
    capture = finished.tree["capture"].to_dataset()
    heads = {
        unit: [
            f"L{layer}{letter}{at}"
            for layer in range(capture.sizes["layer"])
            for at in range(capture.sizes[unit])
        ]
        for unit, letter in (("head", "H"), ("kv_head", "V"))
    }
    for claim in CLAIMS:
        assert found[claim.key] == [[claim.short, name] for name in heads[claim.of]], claim.key
    called = {claim.key: claim.short for claim in CLAIMS}
    assert found["verdicts norms.cv L1V0"] == [[called["norms.cv"], "L1V0"]]
    assert {words for words, _ in found["verdicts norms."]} == {
        claim.short for claim in CLAIMS if claim.key.startswith("norms.")
    }
    assert {words for words, _ in found["verdicts norms.cv_p"]} == {
        called["norms.cv_profile"],
        called["norms.cv_position"],
    }
    assert found["verdicts L1H1"] == [
        [claim.short, "L1H1"] for claim in CLAIMS if claim.of == "head"
    ]
    assert found["heads L1H3"] == [["1", "3"]]
    assert found["heads l1h"] == [["1", str(at)] for at in range(capture.sizes["head"])]
    assert found["heads H3"] == [[str(at), "3"] for at in range(capture.sizes["layer"])]
    assert found["heads L9H9"] == []
    assert len(found["heads "]) == len(heads["head"])
    assert set(found["sorted"]) == {"ascending"}


def words_of(html: str) -> str:
    """The page's own words, without figures, scripts and tags."""
    plain = re.sub(
        r"<svg.*?</svg>|<script.*?</script>|<style.*?</style>", "", html, flags=re.DOTALL
    )
    return unescape(re.sub(r"<[^>]+>", "", plain))


@pytest.mark.slow
def test_no_raw_latex_and_no_empty_button_stand_on_the_page(html: str):
    for page in (html, page_html(full())):
        said = words_of(page)
        for raw in (r"\$\S", r"\\[A-Za-z]", r"\^", r"sqrt", r"\b[vα]_L"):
            assert re.search(raw, said) is None, said[re.search(raw, said).start() - 60 :][:120]
        assert not re.search(r"<button[^>]*>\s*</button>", page)
    assert "decays as e<sup>−βk</sup> with" in html
    assert "distinct ρ₀" in page


def test_indices_and_exponents_in_sentences_leave_names_alone():
    assert (
        str(prose_html("v_L, e^(−βk), r_max of norms.cv_token in x_y_z <b>$a_1$"))
        == "v<sub>L</sub>, e<sup>−βk</sup>, r<sub>max</sub> of norms.cv_token in x_y_z"
        " &lt;b&gt;$a_1$"
    )
