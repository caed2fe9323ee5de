// Two models: where they were seen farthest apart, and what each does around there.

function showPair(data, table, details, i, j) {
  const [low, high] = table.bound(i, j);
  byId("pair-title").replaceChildren(tag("first", data.names[i]), " and ", tag("second", data.names[j]));
  const seen = details.place(i, j) === undefined ? "" : `, and at the input below, the witness, they are ${atLeast(low)} apart`;
  byId("pair-words").textContent = Number.isFinite(high)
    ? `They disagree by at most ${atMost(high)} on the domain (${data.distance})${seen}: ${table.status(i, j)}.`
    : `They disagree by ${atLeast(low)} or more (${data.distance}); no upper bound is known: ${table.status(i, j)}.`;
  const note = table.note(i, j);
  if (note) byId("pair-words").textContent += ` Note: ${note}.`;
  byId("pair-view").replaceChildren(...pairView(data, details, i, j));
}

const tag = (which, name) => html("span", { class: which }, name);

function pairView(data, details, i, j) {
  const k = details.place(i, j);
  if (k === undefined) return [html("p", { class: "quiet" }, details.without(i, j))];
  const turned = details.pair(k)[0] !== i; // stored the other way round
  const outputs = turned ? details.outputs(k).reverse() : details.outputs(k);
  const view = details.view(k);
  const parts = [outputsTable(data, i, j, outputs)];
  if (!view) return [...parts, witnessTable(data, details, k, data.inputs.map((_, n) => n)), html("p", { class: "quiet" }, details.bare(i, j))];
  const picker = view.outputs.length > 1 ? outputPicker(view.outputs) : null;
  const cards = html("div", { class: view.inputs.length > 8 ? "cards small" : "cards" });
  const paint = () => {
    const output = picker ? Number(picker.querySelector("select").value) : 0;
    cards.replaceChildren(...view.inputs.map((_, n) => lineCard(data, details, k, view, output, n, turned)));
    if (view.plane) cards.prepend(planeCard(data, details, k, view));
  };
  if (picker) picker.querySelector("select").addEventListener("change", paint);
  paint();
  const rest = data.inputs.map((_, n) => n).filter((n) => !view.inputs.includes(n));
  const few = view.inputs.length > 31 && rest.length ? html("p", { class: "quiet" }, `Plotted: the ${view.inputs.length} inputs that matter most.`) : "";
  return [...parts, picker ?? "", few, cards, rest.length ? witnessTable(data, details, k, rest) : ""];
}

function outputsTable(data, i, j, outputs) {
  const head = html("tr", {}, html("th", {}, "output at the witness"), ...outputs[0].map((_, n) => html("th", { class: "number" }, outputs[0].length > 1 ? `y${n}` : "y")));
  const row = (which, model, values) => html("tr", {}, html("td", {}, tag(which, data.names[model])), ...values.map((v) => html("td", { class: "number" }, near(v))));
  return html("div", { class: "scroll" }, html("table", {}, head, row("first", i, outputs[0]), row("second", j, outputs[1])));
}

function witnessTable(data, details, k, inputs) {
  const [low, high] = data.boxes[details.box(k)];
  const rows = inputs.map((n) => html("tr", {}, html("td", {}, data.inputs[n]), html("td", { class: "number" }, near(details.witness(k)[n])), html("td", { class: "number quiet" }, low[n] === high[n] ? "fixed" : `${near(low[n])} to ${near(high[n])}`)));
  return html("div", { class: "scroll tall" }, html("table", {}, html("tr", {}, html("th", {}, "input"), html("th", { class: "number" }, "witness"), html("th", { class: "number" }, "domain")), ...rows));
}

function outputPicker(outputs) {
  const options = outputs.map((n, k) => html("option", { value: k }, `y${n}`));
  return html("p", { class: "controls" }, html("label", {}, "Output ", html("select", { id: "output" }, ...options)));
}

// One input moves through its interval, all others stay at the witness.
function lineCard(data, details, k, view, output, n, turned) {
  const [width, height, left, bottom] = [230, 150, 44, 22];
  const input = view.inputs[n];
  const [from, to] = [data.boxes[details.box(k)][0][input], data.boxes[details.box(k)][1][input]];
  const at = details.witness(k)[input];
  const grid = Array.from({ length: view.points - 1 }, (_, p) => from + ((to - from) * p) / (view.points - 2));
  grid.push(Math.min(Math.max(at, from), to));
  grid.sort((a, b) => a - b);
  const [low, high] = view.range[output];
  const x = scale(from, to, left, width - 8);
  const y = scale(low, high, height - bottom, 8);
  const start = (output * view.inputs.length + n) * 2 * view.points;
  const path = (network) => grid.map((g, p) => `${p ? "L" : "M"}${x(g).toFixed(1)},${y(low + ((high - low) * view.lines[start + network * view.points + p]) / 65535).toFixed(1)}`).join("");
  const picture = svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `Both models as ${data.inputs[input]} moves` });
  for (const t of ticks(low, high, 3)) picture.append(svg("line", { class: "grid", x1: left, x2: width - 8, y1: y(t), y2: y(t) }), svg("text", { class: "tick", x: left - 5, y: y(t) + 3.5, "text-anchor": "end" }, tickText(t)));
  for (const [t, anchor] of [[from, "start"], [to, "end"]]) picture.append(svg("text", { class: "tick", x: x(t), y: height - 6, "text-anchor": anchor }, tickText(Number(t.toPrecision(4)))));
  const outputs = turned ? details.outputs(k).reverse() : details.outputs(k);
  const ends = outputs.map((o) => o[view.outputs[output]]);
  picture.append(
    svg("line", { class: "witness", x1: x(at), x2: x(at), y1: 8, y2: height - bottom }),
    svg("path", { class: "line first", d: path(turned ? 1 : 0) }),
    svg("path", { class: "line second", d: path(turned ? 0 : 1) }),
    svg("circle", { class: "dot first", cx: x(at), cy: y(ends[0]), r: 3.5 }),
    svg("rect", { class: "dot second", x: x(at) - 3.2, y: y(ends[1]) - 3.2, width: 6.4, height: 6.4 }));
  return html("figure", { class: "card" }, html("figcaption", {}, html("b", {}, data.inputs[input]), ` at ${near(at)}`), picture);
}

// Two inputs move: how far apart the models are, everywhere on the plane through the witness.
function planeCard(data, details, k, view) {
  const points = Math.sqrt(view.plane.length);
  const [width, height, left, bottom] = [230, 190, 44, 22];
  const canvas = html("canvas", { role: "img", "aria-label": `Distance over ${view.spanned.map((n) => data.inputs[n]).join(" and ")}` });
  const context = sharpCanvas(canvas, width, height);
  const [w, h] = [(width - left - 8) / points, (height - bottom - 8) / points];
  view.plane.forEach((step, p) => {
    const [px, py] = [left + (p % points) * w, 8 + (points - 1 - Math.floor(p / points)) * h];
    if (step === 255) return hatch(context, px, py, w, h);
    context.fillStyle = colour(step / 254);
    context.fillRect(px, py, w + 0.6, h + 0.6);
  });
  const [low, high] = data.boxes[details.box(k)];
  const [across, up] = view.spanned;
  const x = scale(low[across], high[across], left, width - 8);
  const y = scale(low[up], high[up], height - bottom, 8);
  context.fillStyle = ink("muted");
  context.font = "10.5px system-ui, sans-serif";
  for (const [t, align] of [[low[across], "left"], [high[across], "right"]]) {
    context.textAlign = align;
    context.fillText(tickText(Number(t.toPrecision(4))), x(t), height - 6);
  }
  context.textAlign = "right";
  for (const t of [low[up], high[up]]) context.fillText(tickText(Number(t.toPrecision(4))), left - 5, y(t) + (t === high[up] ? 8 : 0));
  const witness = details.witness(k);
  for (const [style, size] of [["#ffffff", 4], [ink("leave"), 2]]) {
    context.strokeStyle = style;
    context.lineWidth = size;
    context.beginPath();
    context.arc(x(witness[across]), y(witness[up]), 6, 0, 2 * Math.PI);
    context.stroke();
  }
  const hatched = view.plane.includes(255) ? html("p", { class: "quiet" }, "Hatched: no condition holds for both, so nothing is counted.") : "";
  const caption = html("figcaption", {}, html("b", {}, `${data.inputs[across]} → ${data.inputs[up]} ↑`), " how far apart");
  return html("figure", { class: "card plane" }, caption, canvas, colourBar(0, view.largest, ""), hatched);
}
