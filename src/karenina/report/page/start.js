// Reads the data and puts the figures in their places.

function readTable(data) {
  const number = data.names.length;
  const [lower, upper] = [unpack(data.table.lower, Float32Array), unpack(data.table.upper, Float32Array)];
  const status = unpack(data.table.status, Uint8Array);
  const place = (i, j) => {
    const [a, b] = i < j ? [i, j] : [j, i];
    return a * number - (a * (a + 1)) / 2 + b - a - 1;
  };
  return {
    lower,
    upper,
    bound: (i, j) => [lower[place(i, j)], upper[place(i, j)]],
    status(i, j) {
      const at = place(i, j);
      if (data.table.words[status[at]] === data.table.exact && upper[at] - lower[at] > data.tolerance * 1.01) return "as exactly as the decisions needed";
      return data.table.words[status[at]] ?? "not measured";
    },
    note: (i, j) => data.table.notes[i < j ? `${i},${j}` : `${j},${i}`] ?? "",
  };
}

function readDetails(data) {
  const found = data.details;
  const pairs = unpack(found.pairs, Uint16Array);
  const boxes = unpack(found.boxes, Uint16Array);
  const [witnesses, outputs] = [unpack(found.witnesses, Float32Array), unpack(found.outputs, Float32Array)];
  const places = new Map();
  for (let k = 0; k < pairs.length / 2; k++) places.set(`${pairs[2 * k]},${pairs[2 * k + 1]}`, k);
  const inputs = data.inputs.length;
  const part = (values, from, size) => Array.from(values.subarray(from, from + size));
  const more = (i, j) => `karenina explain RUN ${data.names[i]} ${data.names[j]}`;
  return {
    place: (i, j) => places.get(i < j ? `${i},${j}` : `${j},${i}`),
    pair: (k) => [pairs[2 * k], pairs[2 * k + 1]],
    box: (k) => boxes[k],
    witness: (k) => part(witnesses, k * inputs, inputs),
    outputs: (k) => [0, 1].map((n) => part(outputs, (2 * k + n) * found.size, found.size)),
    view(k) {
      const view = found.views[k];
      if (!view) return null;
      if (typeof view.lines === "string") { // unpacked when it is first looked at
        view.lines = unpack(view.lines, Uint16Array);
        if (view.plane) view.plane = unpack(view.plane, Uint8Array);
      }
      return view;
    },
    without: (i, j) => `No witness of this pair is in this page. If there is one, this shows it: ${more(i, j)}`,
    bare: (i, j) => `Plots of this pair were left out; for its surroundings: ${more(i, j)}`,
  };
}

function start() {
  const data = JSON.parse(byId("data").textContent);
  const table = readTable(data);
  const details = readDetails(data);
  const choosers = ["first", "second"].map((which) => byId(`choose-${which}`));
  const heat = showHeatMap(data, table, (i, j, look) => open(i, j, look));
  heat.draw();

  function open(i, j, look) {
    if (i === j) return;
    choosers[0].value = i;
    choosers[1].value = j;
    showPair(data, table, details, i, j);
    heat.choose(i, j);
    if (look) byId("pair").scrollIntoView({ block: "nearest", behavior: matchMedia("(prefers-reduced-motion: reduce)").matches ? "auto" : "smooth" });
  }
  for (const chooser of choosers) {
    chooser.append(...data.orders.given.map((m) => html("option", { value: m }, data.names[m])));
    chooser.addEventListener("change", () => {
      open(...choosers.map((c) => Number(c.value)), false);
    });
  }
  for (const link of document.querySelectorAll("[data-pair]")) {
    link.addEventListener("click", () => open(...link.dataset.pair.split(",").map(Number), true));
  }
  showIterations(data);
  showRewards(data);
  const [i, j] = JSON.parse(byId("pair").dataset.open);
  open(i, j, false);
  const redraw = () => {
    heat.draw();
    open(...choosers.map((c) => Number(c.value)), false);
  };
  darkness.addEventListener("change", redraw);
  const closed = [...document.querySelectorAll("details:not([open])")];
  for (const [name, now] of [["beforeprint", true], ["afterprint", false]]) {
    addEventListener(name, () => {
      printing = now;
      document.documentElement.classList.toggle("printing", now);
      for (const part of closed) part.open = now;
      redraw();
    });
  }
  document.documentElement.classList.add("ready");
}

start();
