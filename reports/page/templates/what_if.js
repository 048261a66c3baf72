"use strict";
// What-if panel of an explorer: precomputed bounds with one parameter changed. explorer.js calls it
// with shared helpers.
const whatIf = (section, { catalogue, values, state, plain, known, specOf, draw }) => {
  const study = catalogue.what_if;
  if (!study) return null;
  const find = (name) => section.querySelector(`.what-if-${name}`);
  const { layers, heads } = catalogue;
  const fit = study.steps.indexOf(0);
  const selected = { parameter: 0, step: fit, size: Math.min(2, study.n.length - 1) };
  const bounds = (score, step) => ["lower", "upper"].map((side) =>
    values(`what if ${score} ${side}`, state.layer, selected.parameter, step));
  const measured = (score) => values(`what if ${score}`, state.layer);

  const rows = () => {
    const score = find("score").value;
    const band = (series, [lower, upper]) => study.n.flatMap((x, index) => [
      { series, edge: "band", x, y: null, lower: known(lower[index]), upper: known(upper[index]) },
      { series, edge: "lower", x, y: known(lower[index]), lower: null, upper: null },
      { series, edge: "upper", x, y: known(upper[index]), lower: null, upper: null },
    ]);
    return [
      ...study.n.map((x, index) => ({
        series: "measured", edge: "", x, y: known(measured(score)[index]), lower: null, upper: null,
      })),
      ...band("bounds as fitted", bounds(score, fit)),
      ...(selected.step === fit ? [] : band("bounds if changed", bounds(score, selected.step))),
    ];
  };

  const showResult = () => {
    const fitted = study.of_head[state.layer] >= 0;
    const [key, symbol] = study.parameters[selected.parameter];
    const value = (step) => values("what if value", state.layer, selected.parameter)[step];
    study.parameters.forEach(([parameter], index) => {
      const range = find(parameter);
      const step = index === selected.parameter ? selected.step : fit;
      range.value = step;
      const current = values("what if value", state.layer, index)[step];
      range.disabled = !fitted || !Number.isFinite(current);
      range.nextElementSibling.textContent = plain(current);
      range.setAttribute("aria-valuetext", plain(current));
    });
    const n = find("n");
    n.value = selected.size;
    n.nextElementSibling.textContent = study.n[selected.size];
    n.setAttribute("aria-valuetext", study.n[selected.size]);
    const command = find("again");
    const shown = `L${layers[state.layer]}H${heads[state.head]}`;
    const grid = { c: "0:0.4:5", rho0: "-0.2:0.2:5" }[key] ?? "x0.5,x1,x2";
    command.querySelector("code").textContent =
      `geostat whatif --from ${command.dataset.path} --head ${shown} --gram offset ` +
      `--set ${key}=${grid}`;
    command.querySelector("button").setAttribute("aria-label", "Copy the command");
    find("score").closest(".what-if").querySelector("figure span").textContent =
      find("score").selectedOptions[0].text;
    const name = fitted ? `L${layers[state.layer]}H${study.of_head[state.layer]}` : shown;
    find("head").textContent =
      name === shown ? name : `${name} (the representative head of layer ${layers[state.layer]}; selected: ${shown})`;
    if (!fitted) {
      find("result").textContent = `No head of layer ${layers[state.layer]} has a complete fit.`;
      return;
    }
    const boundsInWords = (step) => study.scores.map(([score, words]) => {
      const [lower, upper] = bounds(score, step).map((curve) => plain(curve[selected.size]));
      return `${words} ${lower} to ${upper}`;
    }).join(", ");
    const moves = values("what if moved", state.layer, selected.parameter);
    const projected = [...new Set([selected.step, fit])].filter((step) => moves[step] > 0).map(
      (step) => ` The Gram matrix at ${symbol} = ${plain(value(step))} is not positive semidefinite: ` +
        `ρ₀ was changed by ${plain(moves[step])}.`).join("");
    const measuredInWords = study.scores.map(([score, words]) =>
      `${words} ${plain(measured(score)[selected.size])}`).join(", ");
    find("result").textContent =
      `${name}, N = ${study.n[selected.size]}. ` +
      (selected.step === fit ? "" : `At ${symbol} = ${plain(value(selected.step))}: ${boundsInWords(selected.step)}. `) +
      `As fitted (${symbol} = ${plain(value(fit))}): ${boundsInWords(fit)}. Measured in this document: ` +
      `${measuredInWords}.` + projected;
  };

  const redraw = async () => {
    showResult();
    await draw("what if", section.querySelector("[data-what-if] .view"), specOf(rows(), [
      "measured", "bounds as fitted", "bounds if changed",
    ]));
  };
  for (const [value, text] of study.scores) find("score").add(new Option(text, value));
  find("score").addEventListener("change", redraw);
  find("n").max = study.n.length - 1;
  find("n").addEventListener("input", () => {
    selected.size = Number(find("n").value);
    showResult();
  });
  study.parameters.forEach(([key], index) => {
    find(key).addEventListener("input", async () => {
      selected.parameter = index;
      selected.step = Number(find(key).value);
      await redraw();
    });
  });
  find("fit").addEventListener("click", async () => {
    selected.step = fit;
    await redraw();
  });
  showResult();
  return redraw;
};
