"use strict";
(() => {
  const charts = JSON.parse(document.getElementById("charts").textContent);
  const SYMBOLS = {
    holds: "✓", "holds trivially": "=", fails: "✗", undetermined: "?", "no estimate": "–", yes: "✓", no: "",
    retriever: "r", mixer: "m", reset: "s", unclassified: "u", "not classifiable": "–",
  };
  const AXES = {
    norm: { x: "position", y: "value norm", fitted: ["Assumption 1, fitted"] },
    cosine: { x: "lag in tokens", y: "cosine", log: 10 },
    weight: { x: "position", y: "weight", fitted: ["four phases, fitted"] },
    score: { x: "N", log: 2 },
  };
  const product = (numbers) => numbers.reduce((a, b) => a * b, 1);
  const plain = (value) => {
    if (!Number.isFinite(value)) return "n/a";
    const size = Math.abs(value);
    const text = size !== 0 && (size < 1e-3 || size >= 1e6)
      ? value.toExponential(2)
      : value.toLocaleString("en", { maximumSignificantDigits: 3 });
    return text.replace("-", "−");
  };
  const known = (value) => (Number.isFinite(value) ? value : null);

  // A value with its interval and unit.
  const within = ([value, lower, upper], unit) =>
    plain(value) +
    (Number.isFinite(lower) ? ` (${plain(lower)} to ${plain(upper)})` : "") +
    (unit && Number.isFinite(value) ? ` ${unit}` : "");

  const quartiles = (values) => {
    const sorted = values.filter(Number.isFinite).sort((a, b) => a - b);
    const quantile = (share) => {
      const position = share * (sorted.length - 1);
      const low = Math.floor(position);
      return sorted[low] + (position - low) * ((sorted[low + 1] ?? sorted[low]) - sorted[low]);
    };
    return [quantile(0.5), quantile(0.25), quantile(0.75)];
  };

  // Reader of the packed arrays: `values(name, ...index)` is the subarray at the leading indices.
  const reader = async (section, arrays) => {
    const text = section.querySelector(".arrays").textContent.trim();
    const packed = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
    const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
    const buffer = await new Response(stream).arrayBuffer();
    return (name, ...index) => {
      const stored = arrays[name];
      if (!stored) return [];
      let length = product(stored.shape);
      let first = 0;
      index.forEach((position, axis) => {
        length /= stored.shape[axis];
        first += position * length;
      });
      const Kind = stored.kind === "float" ? Float32Array : Int16Array;
      const codes = new Kind(buffer, stored.start + first * Kind.BYTES_PER_ELEMENT, length);
      if (stored.kind === "float") return Array.from(codes);
      return Array.from(codes, (code) => {
        const value = code === -32768 ? NaN : stored.offset + stored.scale * code;
        return stored.logarithm ? Math.exp(value) : value;
      });
    };
  };

  const look = () => {
    const style = getComputedStyle(document.documentElement);
    const colour = (name) => style.getPropertyValue(`--${name}`).trim();
    const dark = matchMedia("screen and (prefers-color-scheme: dark)").matches;
    const [ink, paper, soft, line] = ["ink", "paper", "soft", "line"].map(colour);
    // Okabe and Ito's colours; light colours first on a dark background.
    const category = dark
      ? ["#56b4e9", "#e69f00", "#4cc79a", "#cc79a7", "#b9bdc3", "#f0e442", "#d55e00"]
      : ["#0072b2", "#d55e00", "#009e73", "#aa4499", "#595959", "#e69f00", "#56b4e9"];
    const font = "system-ui, sans-serif";
    return {
      ink, paper,
      answers: {
        holds: colour("good"), "holds trivially": colour("trivial"), fails: colour("bad"),
        undetermined: colour("unknown"),
        "no estimate": line, yes: category[0], no: line, "not classifiable": line,
        unclassified: colour("unknown"),
        retriever: category[0], mixer: category[1], reset: category[2],
      },
      config: {
        background: null, aria: false, font, view: { stroke: null }, range: { category },
        axis: {
          labelColor: soft, titleColor: ink, gridColor: line, domainColor: soft, tickColor: soft,
          gridOpacity: 0.5, titleFontWeight: "normal",
        },
        legend: { labelColor: ink, titleColor: ink, titleFontWeight: "normal" },
      },
    };
  };

  // Replace "ink" and "paper" in a chart by colours of the page.
  const inked = (spec, colours) =>
    JSON.parse(JSON.stringify(spec), (_, value) =>
      value === "ink" || value === "paper" ? colours[value] : value);

  const explore = async (section) => {
    const find = (name) => section.querySelector(`.${name}`);
    const catalogue = JSON.parse(find("catalogue").textContent);
    const values = await reader(section, catalogue.arrays);
    const { layers, heads, kv_heads, kv_head_of_head, n, quantities } = catalogue;
    const kvHead = (head) => kv_heads.indexOf(kv_head_of_head[head]);
    const byLabel = new Map(quantities.map((quantity) => [quantity.label, quantity]));
    const state = { layer: 0, head: 0, quantity: quantities[0], size: n.length > 1 ? 1 : 0 };
    const views = {};

    const columnOf = (quantity, head) => (quantity.of === "head" ? head : kvHead(head));
    const numbers = (quantity, layer, column) => {
      if (quantity.curve) {
        return ["", "_lower", "_upper"].map(
          (end) => values(quantity.key + end, layer, column)[state.size],
        );
      }
      const ends = quantity.limits ? ["", " lower", " upper"] : [""];
      return ends.map((end) => values(quantity.key + end, layer, column)[0]);
    };
    // The limit at which a fit stopped: no estimate.
    const endOf = (quantity, layer, column) =>
      quantity.ends ? values(`${quantity.key} end`, layer, column)[0] : NaN;
    const words = (quantity, layer, column) => {
      const end = endOf(quantity, layer, column);
      if (Number.isFinite(end)) return `no estimate, the fit stopped at its limit ${plain(end)}`;
      const estimate = numbers(quantity, layer, column);
      return quantity.words
        ? (quantity.words[estimate[0]] ?? "n/a")
        : within(estimate, quantity.unit);
    };
    const nameOf = (quantity, layer, column) =>
      quantity.of === "head"
        ? `L${layers[layer]}H${heads[column]}`
        : `L${layers[layer]}V${kv_heads[column]}`;

    const cells = () => {
      const { quantity } = state;
      const columns = quantity.of === "head" ? heads : kv_heads;
      const selectedColumn = columnOf(quantity, state.head);
      return layers.flatMap((layer, i) =>
        columns.map((column, j) => {
          const text = words(quantity, i, j);
          const [value] = numbers(quantity, i, j);
          return {
            layer, column, i, j, text,
            name: nameOf(quantity, i, j),
            value: quantity.words ? text : known(value),
            symbol: quantity.words
              ? (SYMBOLS[text] ?? text[0])
              : Number.isFinite(endOf(quantity, i, j)) ? "]" : known(value) === null ? "–" : "",
            chosen: i === state.layer && j === selectedColumn,
          };
        }),
      );
    };

    const mapSpec = (rows) => {
      const colours = look();
      const { answers, config } = colours;
      const { category } = config.range;
      const spec = inked(charts.map, colours);
      const { quantity } = state;
      spec.description = `Map of heads by ${quantity.label}`;
      const ofHeads = quantity.of === "head";
      spec.encoding.y.title = ofHeads ? "head" : "KV head";
      const rowCount = (ofHeads ? heads : kv_heads).length;
      spec.height = rowCount * Math.min(Math.max(160 / rowCount, 15), 30);
      const title = null;
      if (quantity.words) {
        const domain = [...new Set(Object.values(quantity.words))].filter((word) =>
          rows.some((row) => row.value === word));
        spec.layer[0].encoding.color = {
          field: "value", type: "nominal",
          scale: {
            domain,
            range: domain.map((word, index) => answers[word] ?? category[index % category.length]),
          },
          legend: { title, orient: "top" },
        };
      } else {
        const all = rows.map((row) => row.value).filter((value) => value !== null);
        const signed = Math.min(...all) < 0 && Math.max(...all) > 0;
        spec.layer[0].encoding.color = {
          field: "value", type: "quantitative",
          scale: signed ? { scheme: "blueorange", domainMid: 0 } : { scheme: "viridis" },
          legend: { title, orient: "top", gradientLength: 220, format: ".3~g" },
        };
      }
      spec.datasets = { cells: rows };
      return spec;
    };

    // One row per point of a curve; only measured curves have limits.
    const rowsOf = (series, x, y, lower = [], upper = [], edge = "") =>
      x.map((position, index) => ({
        series, edge, x: position,
        y: known(y[index]), lower: known(lower[index]), upper: known(upper[index]),
      }));

    const fittedOf = (name, layer, column) =>
      name === "cosine"
        ? catalogue.forms.map(
          ([form, text], index) => [text, values("cosine_fitted", index, layer, column)])
        : AXES[name].fitted.map((text) => [text, values(`${name}_fitted`, layer, column)]);

    const seriesOf = (name) => {
      if (name === "score") {
        return ["measured", "bounds", ...catalogue.nulls.map((null_) => null_.replace("_", " "))];
      }
      const fitted = name === "cosine" ? catalogue.forms.map(([, text]) => text) : AXES[name].fitted;
      return ["measured", ...fitted];
    };

    const curveRows = (name) => {
      const { layer, head } = state;
      if (name === "score") return scoreRows(layer, head);
      const column = name === "weight" ? head : kvHead(head);
      const x = name === "cosine" ? catalogue.lag : catalogue.position;
      const measured = ["", "_lower", "_upper"].map((end) => values(name + end, layer, column));
      const fitted = fittedOf(name, layer, column).filter(([, y]) => y.some(Number.isFinite));
      if (!find("residuals").checked) {
        return [
          ...rowsOf("measured", x, ...measured),
          ...fitted.flatMap(([text, y]) => rowsOf(text, x, y)),
        ];
      }
      const residuals = (values, y) => values.map((value, index) =>
        name === "weight" ? Math.log(value / y[index]) : value - y[index]);
      return fitted.flatMap(([text, y], index) => {
        const ends = measured.map((values) => residuals(values, y));
        return rowsOf(text, x, ...(index ? ends.slice(0, 1) : ends));
      });
    };

    // Lower and upper bound on a score by N, for the selected edition and Gram.
    const boundsOf = (score, layer, head) => {
      const indexOf = (name, options) => options.indexOf(find(name).value);
      const edition = indexOf("edition", catalogue.editions);
      const gram = indexOf("gram", catalogue.grams);
      return ["lower", "upper"].map((side) =>
        values(`${score}_bound_${side}`, edition, gram, layer, head));
    };

    const scoreRows = (layer, head) => {
      const score = find("score").value;
      const bounds = boundsOf(score, layer, head);
      const measured = ["", "_lower", "_upper"].map((end) => values(score + end, layer, head));
      return [
        ...rowsOf("measured", n, ...measured),
        ...rowsOf("bounds", n, [], ...bounds, "band"),
        ...rowsOf("bounds", n, bounds[0], [], [], "lower"),
        ...rowsOf("bounds", n, bounds[1], [], [], "upper"),
        ...catalogue.nulls.flatMap((null_) =>
          rowsOf(null_.replace("_", " "), n, values(`${score}_${null_}`, layer, head))),
      ];
    };

    // Boundaries between the phases of the weights.
    const marksOf = () => {
      const [first, second] = ["t1", "t2"].map(
        (key) => values(`weights.${key}`, state.layer, state.head)[0]);
      const marks = first === second
        ? [[first, "T₁ = T₂"]]
        : [[first, "T₁"], [second, "T₂"]];
      return marks
        .filter(([x]) => Number.isFinite(x))
        .map(([x, name]) => ({ x: catalogue.first_position + x, name }));
    };

    const curveSpec = (name, rows) => {
      const spec = inked(charts.curve, look());
      const residuals = find("residuals").checked && name !== "score";
      const { x, y, log } = AXES[name];
      const along = rows.map((row) => row.x);
      const scale = log
        ? { type: "log", base: log, domain: [Math.min(...along), Math.max(...along)], nice: false }
        : { nice: false };
      spec.description = section.querySelector(`[data-curve=${name}] h3`).textContent;
      const axis = { format: ",~f", labelOverlap: "greedy", labelSeparation: 4 };
      if (log === 10) axis.values = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 1e5];
      spec.encoding.x = { ...spec.encoding.x, title: x, scale, axis };
      const title = residuals ? (name === "weight" ? "log measured/fitted" : "residual") : y;
      const vertical = { title: title ?? null, scale: { zero: name === "norm" } };
      if (name === "weight" && !residuals) {
        vertical.scale = { type: "log" };
        vertical.axis = { format: ".0~e", tickCount: 5 };
      }
      if (name === "score") vertical.scale = { domain: [0, 1] };
      for (const layer of spec.layer.slice(0, 2)) Object.assign(layer.encoding.y, vertical);
      if (name === "weight") for (const layer of spec.layer.slice(2)) layer.encoding.x.title = x;
      else spec.layer.length = 2;
      // A curve keeps its colour for all heads, also in residuals.
      const series = seriesOf(name);
      const drawn = series.slice(residuals ? 1 : 0);
      spec.encoding.color.scale = { domain: series };
      if (residuals) spec.encoding.color.legend = { ...spec.encoding.color.legend, values: drawn };
      spec.layer[1].encoding.strokeDash.scale = {
        domain: series,
        range: series.map((_, index) => [[1, 0], [6, 2], [2, 2], [8, 2, 2, 2], [4, 4], [1, 3], [10, 4]][index % 7]),
      };
      // One document gives no limits.
      if (!rows.some((row) => row.lower !== null)) spec.layer.shift();
      spec.datasets = name === "weight" ? { rows, marks: marksOf() } : { rows };
      return spec;
    };

    // Sequential, because a chart that is replaced while loading would keep its listeners.
    const queues = {};
    const embed = (name, element, spec) =>
      (queues[name] = (queues[name] ?? Promise.resolve()).then(() => draw(name, element, spec)));
    const draw = async (name, element, spec) => {
      views[name]?.finalize();
      if (name !== "map") {
        element.setAttribute("role", "img");
        element.setAttribute("aria-label", spec.description);
      }
      // The content security policy forbids eval: with `ast`, Vega interprets its expressions.
      const options = { actions: false, renderer: "svg", ast: true, config: look().config };
      views[name] = (await vegaEmbed(element, spec, options)).view;
      // The caption gives the same in words.
      element.querySelector("svg").setAttribute("aria-hidden", "true");
      return views[name];
    };

    const curves = [...section.querySelectorAll("[data-curve]")].map((figure) => figure.dataset.curve);
    const embedCurve = (name) =>
      embed(name, section.querySelector(`[data-curve=${name}] .view`), curveSpec(name, curveRows(name)));

    const showLayers = () => {
      const brushed = views.map.signal("brushed")?.layer;
      const caption = find("layers-shown");
      if (!brushed?.length) {
        caption.textContent = "";
        return;
      }
      const summary = (rows) => {
        if (!state.quantity.words) {
          const [median, low, high] = quartiles(rows.map((row) => row.value ?? NaN));
          return `median ${plain(median)}, middle half ${plain(low)} to ${plain(high)}`;
        }
        const count = new Map();
        for (const row of rows) count.set(row.value, (count.get(row.value) ?? 0) + 1);
        return [...count].map(([word, number]) => `${number} ${word}`).join(", ");
      };
      const rows = cells();
      const inside = rows.filter((row) => brushed.includes(row.layer));
      const others = rows.filter((row) => !brushed.includes(row.layer));
      const span = `${Math.min(...brushed)} to ${Math.max(...brushed)}`;
      caption.textContent =
        `Layers ${span}: ${summary(inside)} (${inside.length} heads).` +
        (others.length ? ` Other layers: ${summary(others)} (${others.length} heads).` : "");
    };

    const embedMap = async () => {
      const view = await embed("map", find("map"), mapSpec(cells()));
      view.addEventListener("click", (_, item) => {
        if (item?.datum?.i === undefined) return;
        const { i, j } = item.datum;
        const { quantity } = state;
        pick(i, quantity.of === "head" ? j : kv_head_of_head.indexOf(kv_heads[j]));
      });
      view.addSignalListener("brushed", showLayers);
      showLayers();
    };

    // Bounds on the score of the map, for the selected edition and Gram.
    const boundsInWords = () => {
      const { layer, head, size } = state;
      const [score, edition, gram] = ["score", "edition", "gram"].map((name) => find(name).value);
      const [lower, upper] = boundsOf(score, layer, head).map((curve) => curve[size]);
      return Number.isFinite(lower) || Number.isFinite(upper)
        ? ` Bounds (${edition}, ${gram} Gram): ${plain(lower)} to ${plain(upper)}.`
        : "";
    };

    const showResult = () => {
      const { layer, head, quantity } = state;
      const column = columnOf(quantity, head);
      const name = `L${layers[layer]}H${heads[head]}`;
      const size = quantity.curve ? ` = ${n[state.size]}` : "";
      find("head-shown").textContent =
        `${name}, KV head ${kv_head_of_head[head]}. ${quantity.label}${size}: ` +
        `${words(quantity, layer, column)}.${quantity.curve ? boundsInWords() : ""}`;
      find("layer").value = layers[layer];
      find("head").value = heads[head];
      find("marks-shown").textContent = quantity.ends
        ? "]: the fit stopped at a limit of its range, so there is no estimate."
        : "";
      find("size").disabled = !quantity.curve;
      find("size").value = state.size;
      find("size-shown").textContent = n[state.size];
      find("score-shown").textContent = find("score").selectedOptions[0].text;
      const row = (claim) => {
        const column = claim.of === "head" ? head : kvHead(head);
        const verdict = quantities.find(({ key }) => key === `verdicts.${claim.key}`);
        const answer = words(verdict, layer, column);
        const estimate = ["estimate", "lower", "upper"].map(
          (end) => values(`${claim.key} ${end}`, layer, column)[0]);
        const [code] = claim.bounds ? values(`${claim.key} cell_bound`, layer, column) : [];
        const [size] = claim.bounds ? values(`${claim.key} cell_n`, layer, column) : [];
        const where = claim.bounds?.[code]
          ? ` outside the bound (${claim.bounds[code].replace("_", ", ")}, N = ${size})`
          : "";
        const cell = (label, className, textContent) => {
          const element = Object.assign(document.createElement("td"), { className, textContent });
          element.dataset.label = label;
          return element;
        };
        const rowElement = document.createElement("tr");
        const says = cell("claim", "p", "");
        says.innerHTML = claim.html;  // escaped by the page, with exponents
        rowElement.append(
          says,
          cell("answer", "l", `${SYMBOLS[answer]} ${answer}`),
          cell("estimate", "r", within(estimate, claim.unit) + where),
          cell("tolerance", "r", claim.tolerance));
        return rowElement;
      };
      section.querySelector(".answers tbody").replaceChildren(...catalogue.claims.map(row));
    };

    const redraw = async () => {
      showResult();
      await Promise.all([
        views.map?.data("cells", cells()).runAsync(),
        ...curves.map((name) => {
          const view = views[name]?.data("rows", curveRows(name));
          return (name === "weight" ? view?.data("marks", marksOf()) : view)?.runAsync();
        }),
        views["what if"] && changed(),
      ]);
    };

    const pick = async (layer, head, { link = true } = {}) => {
      state.layer = Math.min(Math.max(layer, 0), layers.length - 1);
      state.head = Math.min(Math.max(head, 0), heads.length - 1);
      if (link) {
        history.replaceState(null, "", `#L${layers[state.layer]}H${heads[state.head]}`);
      }
      await redraw();
    };

    const matching = (text) => {
      const words = text.toLowerCase().split(/\s+/).filter(Boolean);
      const matches = quantities.filter(({ label }) =>
        words.length > 0 && words.every((word) => label.toLowerCase().includes(word)));
      // Prefer measured quantities to verdicts on them.
      return matches.find(({ key }) => !key.startsWith("verdicts.")) ?? matches[0];
    };

    const choose = async (quantity) => {
      state.quantity = quantity;
      find("quantity").value = quantity.label;
      if (quantity.curve) find("score").value = quantity.key;
      showResult();
      await embedMap();
    };

    const fill = (name, options) => {
      for (const [value, text] of options) find(name).add(new Option(text, value));
      find(name).addEventListener("change", async () => {
        // The map and the chart show the same score.
        if (name === "score" && state.quantity.curve) {
          await choose(quantities.find(({ key }) => key === find(name).value));
        }
        showResult();
        await embedCurve("score");
      });
    };

    const numbered = (name, labels, move) => {
      const input = find(name);
      [input.min, input.max] = [Math.min(...labels), Math.max(...labels)];
      input.addEventListener("change", () => {
        const index = labels.indexOf(Number(input.value));
        if (index >= 0) move(index);
        else showResult();
      });
    };

    const listen = () => {
      const quantity = find("quantity");
      quantity.value = state.quantity.label;
      const options = document.getElementById(quantity.getAttribute("list"));
      options.replaceChildren(...quantities.map(({ label }) => new Option("", label)));
      quantity.addEventListener("focus", () => quantity.select());
      quantity.addEventListener("change", async () => {
        const match = byLabel.get(quantity.value) ?? matching(quantity.value);
        if (!match) {
          find("head-shown").textContent = `No quantity matches “${quantity.value}”.`;
          quantity.value = state.quantity.label;
          return;
        }
        await choose(match);
        if (match.curve) await embedCurve("score");
      });
      find("size").max = n.length - 1;
      find("size").addEventListener("input", async () => {
        state.size = Number(find("size").value);
        showResult();
        await embedMap();
      });
      numbered("layer", layers, (index) => pick(index, state.head));
      numbered("head", heads, (index) => pick(state.layer, index));
      find("residuals").addEventListener("change", () => Promise.all(curves.map(embedCurve)));
      fill("score", catalogue.scores);
      fill("edition", catalogue.editions.map((name) => [name, name]));
      fill("gram", catalogue.grams.map((name) => [name, name]));
      find("edition").value = catalogue.editions.includes("sharp") ? "sharp" : catalogue.editions[0];
      find("map").addEventListener("keydown", (event) => {
        const move = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
        const step = move[event.key];
        if (!step) return;
        event.preventDefault();
        const { quantity, layer, head } = state;
        if (quantity.of === "head") pick(layer + step[0], head + step[1]);
        else {
          const column = Math.min(Math.max(kvHead(head) + step[1], 0), kv_heads.length - 1);
          pick(layer + step[0], step[1] ? kv_head_of_head.indexOf(kv_heads[column]) : head);
        }
      });
      matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => started && all());
    };

    // The what-if panel draws bounds like those of a score.
    const changed = whatIf(section, {
      catalogue, values, state, plain, known, draw: embed,
      specOf: (rows, series) => {
        const spec = curveSpec("score", rows);
        spec.description = "Bounds with one parameter changed";
        spec.encoding.color.scale = { domain: series };
        spec.layer.at(-1).encoding.strokeDash.scale = {
          domain: series, range: [[1, 0], [6, 2], [2, 2]],
        };
        return spec;
      },
    });

    const all = () => Promise.all([embedMap(), ...curves.map(embedCurve), changed?.()]);
    let started = null;
    const start = () => (started ??= all());

    const linked = () => {
      const [, layer, head] = location.hash.match(/^#L(\d+)H(\d+)$/) ?? [];
      const indices = [layers.indexOf(Number(layer)), heads.indexOf(Number(head))];
      if (layer === undefined || indices.includes(-1)) return;
      section.scrollIntoView();
      start().then(() => pick(...indices, { link: false }));
    };

    listen();
    showResult();
    section.explorer = { state, views, start, pick, values };
    addEventListener("hashchange", linked);
    linked();
    requestAnimationFrame(() => setTimeout(start)); // after the first paint of the page
  };

  // Charts shift the layout: scroll to the link target until the reader scrolls.
  let moved = false;
  for (const kind of ["wheel", "touchmove", "keydown", "pointerdown"]) {
    addEventListener(kind, () => (moved = true), { passive: true });
  }
  addEventListener("hashchange", () => (moved = false));
  new ResizeObserver(() => {
    const target = document.getElementById(location.hash.slice(1));
    if (!moved) target?.scrollIntoView({ behavior: "instant" });
  }).observe(document.body);

  for (const section of document.querySelectorAll("[data-explorer]")) {
    explore(section).catch((error) => {
      section.querySelector(".head-shown").textContent =
        `This browser cannot draw the heads (${error.message}). The figures below can be read.`;
    });
  }
})();
