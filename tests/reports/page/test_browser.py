"""The page in a browser: what a click and a typed word leave visible, and captions without raw
LaTeX.
"""

import json
import re
import shutil
import subprocess
from html import unescape
from pathlib import Path

import pytest
from support.experiments import full
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


@pytest.mark.slow
@pytest.mark.skipif(BROWSER is None, reason="no browser is installed (chromium)")
def test_a_click_or_a_typed_name_shows_that_claim_or_head_alone(
    html: str, finished: Finished, tmp_path: Path
):
    page = tmp_path / "report.html"
    page.write_text(html.replace("</body>", f"{ASKED}</body>"), encoding="utf-8")
    command = [
        str(BROWSER),
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        f"--user-data-dir={tmp_path / 'user'}",
        "--dump-dom",
        page.as_uri(),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    told = re.search(r'<pre id="told">(.*?)</pre>', done.stdout, re.DOTALL)
    assert told is not None, done.stderr[-2000:]
    found = json.loads(unescape(told[1]))
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
    assert "distinct ρ₀" in full


def test_indices_and_exponents_in_sentences_leave_names_alone():
    assert (
        str(prose_html("v_L, e^(−βk), r_max of norms.cv_token in x_y_z <b>$a_1$"))
        == "v<sub>L</sub>, e<sup>−βk</sup>, r<sub>max</sub> of norms.cv_token in x_y_z"
        " &lt;b&gt;$a_1$"
    )
