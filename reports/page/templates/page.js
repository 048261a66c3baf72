"use strict";
(() => {
  const value = (cell) => {
    const text = cell.dataset.sort;
    const number = Number(text);
    return text === "" ? null : Number.isFinite(number) ? number : text;
  };
  const compare = (a, b) =>
    typeof a === "number" && typeof b === "number"
      ? a - b
      : String(a).localeCompare(String(b), "en", { numeric: true });
  for (const table of document.querySelectorAll("table.sortable")) {
    const headers = [...table.tHead.rows[0].cells];
    headers.forEach((header, column) => {
      header.querySelector("button")?.addEventListener("click", () => {
        const down = header.getAttribute("aria-sort") === "ascending";
        headers.forEach((other) => other.removeAttribute("aria-sort"));
        header.setAttribute("aria-sort", down ? "descending" : "ascending");
        const rows = [...table.tBodies[0].rows].map((row) => [value(row.cells[column]), row]);
        // What was not measured stays last, whichever way the rest is sorted.
        rows.sort(([a], [b]) => {
          if (a === null || b === null) return (a === null) - (b === null);
          return down ? compare(b, a) : compare(a, b);
        });
        table.tBodies[0].append(...rows.map(([, row]) => row));
      });
    });
  }
  // `names` are what a row is called by: a word that is a whole name finds that name alone, any
  // other word what has it in it.
  const filtered = (section, what, layer, names) => {
    const find = (name) => document.querySelector(`#${section} .${name}`);
    const words = find("filter-text");
    if (!words) return;
    const count = find("filter-count");
    const rows = [...document.querySelectorAll(`#${section} tbody tr`)];
    const lower = (row) => names(row.cells).map((name) => name.toLowerCase());
    const called = new Map(rows.map((row) => [row, lower(row)]));
    const known = new Set([...called.values()].flat());
    const filter = () => {
      const wanted = layer ? find("filter-layer").value.trim() : "";
      const texts = words.value.trim().toLowerCase().split(/\s+/);
      let shown = 0;
      for (const row of rows) {
        const own = called.get(row);
        const text = `${own.join(" ")} ${row.textContent.toLowerCase()}`;
        const found = (part) => (known.has(part) ? own.includes(part) : text.includes(part));
        row.hidden = (wanted !== "" && row.cells[0].textContent !== wanted) || !texts.every(found);
        shown += row.hidden ? 0 : 1;
      }
      count.textContent = shown === rows.length ? "" : `${shown} of ${rows.length} ${what}`;
    };
    if (layer) find("filter-layer").addEventListener("input", filter);
    words.addEventListener("input", filter);
  };
  filtered("heads", "heads", true, (cells) => [`L${cells[0].textContent}H${cells[1].textContent}`]);
  filtered("table-verdict_heads", "verdicts", false, (cells) => [
    cells[0].textContent,
    cells[1].textContent,
  ]);
  // A link to what is folded away opens it; one to a claim shows that claim alone.
  for (const link of document.querySelectorAll('a[href="#table-verdict_heads"]')) {
    link.addEventListener("click", () => {
      const details = document.getElementById("table-verdict_heads");
      const words = details.querySelector(".filter-text");
      details.open = true;
      words.value = link.dataset.show || "";
      words.dispatchEvent(new Event("input"));
    });
  }
  addEventListener("beforeprint", () => {
    for (const details of document.querySelectorAll("details:not(#table-verdict_heads)")) {
      details.open = true;
    }
  });
})();
