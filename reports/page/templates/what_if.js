"use strict";
// The what-if panel of one explorer: bounds that were evaluated beforehand, one parameter changed.
// Called by explorer.js with what both need.
const whatIf = (section, { catalogue, values, state, plain, known, specOf, draw }) => {
  const told = catalogue.what_if;
  if (!told) return null;
  const find = (name) => section.querySelector(`.what-if-${name}`);
  const { layers, heads } = catalogue;
  const fit = told.steps.indexOf(0);
  const asked = { parameter: 0, step: fit, size: Math.min(2, told.n.length - 1) };
  const bounds = (score, step) => ["lower", "upper"].map((side) =>
    values(`what if ${score} ${side}`, state.layer, asked.parameter, step));
  const measured = (score) => values(`what if ${score}`, state.layer);

  const rows = () => {
    const score = find("score").value;
    const band = (series, [lower, upper]) => told.n.flatMap((x, at) => [
      { series, edge: "band", x, y: null, lower: known(lower[at]), upper: known(upper[at]) },
      { series, edge: "lower", x, y: known(lower[at]), lower: null, upper: null },
      { series, edge: "upper", x, y: known(upper[at]), lower: null, upper: null },
    ]);
    return [
      ...told.n.map((x, at) => ({
        series: "measured", edge: "", x, y: known(measured(score)[at]), lower: null, upper: null,
      })),
      ...band("bounds as fitted", bounds(score, fit)),
      ...(asked.step === fit ? [] : band("bounds if changed", bounds(score, asked.step))),
    ];
  };

  const tell = () => {
    const has = told.of_head[state.layer] >= 0;
    const [key, symbol] = told.parameters[asked.parameter];
    const value = (step) => values("what if value", state.layer, asked.parameter)[step];
    told.parameters.forEach(([one], place) => {
      const range = find(one);
      const step = place === asked.parameter ? asked.step : fit;
      range.value = step;
      const now = values("what if value", state.layer, place)[step];
      range.disabled = !has || !Number.isFinite(now);
      range.nextElementSibling.textContent = plain(now);
      range.setAttribute("aria-valuetext", plain(now));
    });
    const n = find("n");
    n.value = asked.size;
    n.nextElementSibling.textContent = told.n[asked.size];
    n.setAttribute("aria-valuetext", told.n[asked.size]);
    const again = find("again");
    const shown = `L${layers[state.layer]}H${heads[state.head]}`;
    const many = { c: "0:0.4:5", rho0: "-0.2:0.2:5" }[key] ?? "x0.5,x1,x2";
    again.querySelector("code").textContent =
      `geostat whatif --from ${again.dataset.path} --head ${shown} --gram offset ` +
      `--set ${key}=${many}`;
    again.querySelector("button").setAttribute("aria-label", "Copy the command");
    find("score").closest(".what-if").querySelector("figure span").textContent =
      find("score").selectedOptions[0].text;
    const name = has ? `L${layers[state.layer]}H${told.of_head[state.layer]}` : shown;
    find("head").textContent =
      name === shown ? name : `${name}, which stands for its layer (picked: ${shown}),`;
    if (!has) {
      find("told").textContent = `No head of layer ${layers[state.layer]} has a complete fit.`;
      return;
    }
    const between = (step) => told.scores.map(([score, words]) => {
      const [lower, upper] = bounds(score, step).map((curve) => plain(curve[asked.size]));
      return `${words} ${lower} to ${upper}`;
    }).join(", ");
    const moves = values("what if moved", state.layer, asked.parameter);
    const movedTold = [...new Set([asked.step, fit])].filter((step) => moves[step] > 0).map((step) =>
      ` No vectors have the cosines of ${symbol} = ${plain(value(step))}: ρ₀ was moved by ` +
      `${plain(moves[step])}.`).join("");
    const here = told.scores.map(([score, words]) =>
      `${words} ${plain(measured(score)[asked.size])}`).join(", ");
    find("told").textContent =
      `${name}, N = ${told.n[asked.size]}. ` +
      (asked.step === fit ? "" : `At ${symbol} = ${plain(value(asked.step))}: ${between(asked.step)}. `) +
      `As fitted (${symbol} = ${plain(value(fit))}): ${between(fit)}. Measured in this document: ${here}.` +
      movedTold;
  };

  const redraw = async () => {
    tell();
    await draw("what if", section.querySelector("[data-what-if] .view"), specOf(rows(), [
      "measured", "bounds as fitted", "bounds if changed",
    ]));
  };
  for (const [value, text] of told.scores) find("score").add(new Option(text, value));
  find("score").addEventListener("change", redraw);
  find("n").max = told.n.length - 1;
  find("n").addEventListener("input", () => {
    asked.size = Number(find("n").value);
    tell();
  });
  told.parameters.forEach(([key], place) => {
    find(key).addEventListener("input", async () => {
      asked.parameter = place;
      asked.step = Number(find(key).value);
      await redraw();
    });
  });
  find("fit").addEventListener("click", async () => {
    asked.step = fit;
    await redraw();
  });
  tell();
  return redraw;
};
