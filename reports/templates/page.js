"use strict";
(() => {
  const value = (cell) => {
    const text = cell.dataset.sort;
    const number = Number(text);
    return text === "" ? null : Number.isFinite(number) ? number : text;
  };
  const compare = (a, b) => (typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b), "en", { numeric: true }));
  for (const table of document.querySelectorAll("table.sortable")) {
    const headers = [...table.tHead.rows[0].cells];
    headers.forEach((header, column) => {
      header.querySelector("button").addEventListener("click", () => {
        const down = header.getAttribute("aria-sort") === "ascending";
        headers.forEach((other) => other.removeAttribute("aria-sort"));
        header.setAttribute("aria-sort", down ? "descending" : "ascending");
        const rows = [...table.tBodies[0].rows].map((row) => [value(row.cells[column]), row]);
        // What was not measured stays last, whichever way the rest is sorted.
        rows.sort(([a], [b]) => (a === null || b === null ? (a === null) - (b === null) : down ? compare(b, a) : compare(a, b)));
        table.tBodies[0].append(...rows.map(([, row]) => row));
      });
    });
  }
  const layer = document.getElementById("filter-layer");
  const words = document.getElementById("filter-text");
  const count = document.getElementById("filter-count");
  const rows = [...document.querySelectorAll("#heads tbody tr")];
  const filter = () => {
    const wanted = layer.value.trim();
    const text = words.value.trim().toLowerCase();
    let shown = 0;
    for (const row of rows) {
      row.hidden = (wanted !== "" && row.cells[0].textContent !== wanted) || (text !== "" && !row.textContent.toLowerCase().includes(text));
      shown += row.hidden ? 0 : 1;
    }
    count.textContent = shown === rows.length ? "" : `${shown} of ${rows.length} heads`;
  };
  if (layer) {
    layer.addEventListener("input", filter);
    words.addEventListener("input", filter);
  }
  addEventListener("beforeprint", () => document.querySelectorAll("details").forEach((details) => { details.open = true; }));
})();
