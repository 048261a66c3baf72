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
  for (const button of document.querySelectorAll("button.copy")) {
    button.addEventListener("click", async () => {
      const code = button.parentElement.querySelector("code");
      try {
        await navigator.clipboard.writeText(code.textContent);
        button.textContent = "Copied";
      } catch {
        // Without a clipboard, select the command for manual copying.
        getSelection().selectAllChildren(code);
        button.textContent = "Selected";
      }
    });
  }
  for (const table of document.querySelectorAll("table.sortable")) {
    const headers = [...table.tHead.rows[0].cells];
    headers.forEach((header, column) => {
      header.querySelector("button")?.addEventListener("click", () => {
        const down = header.getAttribute("aria-sort") === "ascending";
        headers.forEach((other) => other.removeAttribute("aria-sort"));
        header.setAttribute("aria-sort", down ? "descending" : "ascending");
        const rows = [...table.tBodies[0].rows].map((row) => [value(row.cells[column]), row]);
        // Missing values stay last in both directions.
        rows.sort(([a], [b]) => {
          if (a === null || b === null) return (a === null) - (b === null);
          return down ? compare(b, a) : compare(a, b);
        });
        table.tBodies[0].append(...rows.map(([, row]) => row));
      });
    });
  }
  // `names` returns the names of a row: a word that equals a name matches only that name; any other
  // word matches as a substring.
  const addFilter = (section, noun, byLayer, names) => {
    const find = (name) => section.querySelector(`.${name}`);
    const words = find("filter-text");
    const count = find("filter-count");
    const rows = [...section.querySelectorAll("tbody tr")];
    const lower = (row) => names(row.cells).map((name) => name.toLowerCase());
    const namesOf = new Map(rows.map((row) => [row, lower(row)]));
    const allNames = new Set([...namesOf.values()].flat());
    const filter = () => {
      const layer = byLayer ? find("filter-layer").value.trim() : "";
      const texts = words.value.trim().toLowerCase().split(/\s+/);
      let shown = 0;
      for (const row of rows) {
        const rowNames = namesOf.get(row);
        const text = `${rowNames.join(" ")} ${row.textContent.toLowerCase()}`;
        const matches = (word) =>
          allNames.has(word) ? rowNames.includes(word) : text.includes(word);
        row.hidden = (layer !== "" && row.cells[0].textContent !== layer) || !texts.every(matches);
        shown += row.hidden ? 0 : 1;
      }
      count.textContent = shown === rows.length ? "" : `${shown} of ${rows.length} ${noun}`;
    };
    if (byLayer) find("filter-layer").addEventListener("input", filter);
    words.addEventListener("input", filter);
  };
  for (const section of document.querySelectorAll("[data-filter]")) {
    const heads = section.dataset.filter === "heads";
    addFilter(section, section.dataset.filter, heads, ([first, second]) =>
      heads
        ? [`L${first.textContent}H${second.textContent}`]
        : [first.firstElementChild?.dataset.name ?? first.textContent, second.textContent],
    );
  }
  // In a narrow window a figure keeps its font size and scrolls, also by keyboard.
  const narrow = matchMedia("(max-width: 40rem)");
  const scrolling = () => {
    for (const plot of document.querySelectorAll(".plot:not(.stacked)")) {
      if (narrow.matches) plot.setAttribute("tabindex", "0");
      else plot.removeAttribute("tabindex");
    }
  };
  narrow.addEventListener("change", scrolling);
  scrolling();
  // A link opens folded targets; a link to a claim filters the table to it.
  const unfold = (target) => {
    for (let element = target; element; element = element.parentElement) {
      if (element.matches("details")) element.open = true;
    }
  };
  for (const link of document.querySelectorAll('a[href^="#"]')) {
    link.addEventListener("click", () => {
      const target = document.getElementById(link.getAttribute("href").slice(1));
      unfold(target);
      const words = link.dataset.show && target?.querySelector(".filter-text");
      if (!words) return;
      words.value = link.dataset.show;
      words.dispatchEvent(new Event("input"));
    });
  }
  unfold(document.getElementById(location.hash.slice(1)));
  addEventListener("beforeprint", () => {
    for (const details of document.querySelectorAll("details:not([data-filter])")) {
      details.open = true;
    }
  });
})();
