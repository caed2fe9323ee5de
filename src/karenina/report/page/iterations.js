// The steps of the selection: every model's score as an interval, who leaves, and why.

function showIterations(data) {
  const steps = data.iterations;
  const slider = byId("step");
  const chart = byId("scores");
  const highest = Math.max(...steps.flatMap((s) => s.scores.map(([low, high]) => high ?? low)), 1e-12);
  slider.max = steps.length - 1;

  function draw() {
    const k = Number(slider.value);
    const step = steps[k];
    const gone = new Set(step.removed);
    byId("step-title").textContent = step.title;
    byId("step-count").textContent = k < steps.length - 1 ? `${step.models.length} models, ${gone.size} leave` : `${step.models.length} models stay`;
    byId("step-why").textContent = gone.size
      ? `Out: ${step.removed.map((m) => data.names[m]).join(", ")}. Why: ${step.reason}. Decided: ${step.decided}.`
      : `No more are removed: ${step.reason} (${step.decided}).`;
    slider.setAttribute("aria-valuetext", `${step.title}, ${byId("step-count").textContent}`);
    byId("back").disabled = k === 0;
    byId("forth").disabled = k === steps.length - 1;
    chart.replaceChildren(scoreChart(data, step, gone, highest));
  }

  slider.addEventListener("input", draw);
  for (const [id, by] of [["back", -1], ["forth", 1]]) {
    byId(id).addEventListener("click", () => {
      slider.value = Number(slider.value) + by;
      draw();
    });
  }
  draw();
  addEventListener("resize", draw);
}

function scoreChart(data, step, gone, highest) {
  const rows = step.models.map((model, k) => ({ model, low: step.scores[k][0], high: step.scores[k][1] }));
  rows.sort((a, b) => gone.has(b.model) - gone.has(a.model) || b.low - a.low || a.model - b.model);
  const width = Math.max(280, (byId("scores").clientWidth || 640) - 34); // without the panel's padding
  const line = rows.length > 40 ? 15 : 22;
  const left = Math.min(width * 0.32, 18 + 7.2 * Math.min(22, Math.max(...rows.map((r) => data.names[r.model].length))));
  const right = 64;
  const top = 8;
  const bottom = top + rows.length * line;
  const x = scale(0, highest, left, width - right);
  const picture = svg("svg", { width, height: bottom + 40, viewBox: `0 0 ${width} ${bottom + 40}`, role: "img", "aria-label": `Scores, ${step.title}` });
  for (const at of ticks(0, highest, width > 500 ? 6 : 3)) {
    picture.append(svg("line", { class: "grid", x1: x(at), x2: x(at), y1: top, y2: bottom }));
    picture.append(svg("text", { class: "tick", x: x(at), y: bottom + 15, "text-anchor": "middle" }, tickText(at)));
  }
  picture.append(svg("text", { class: "axis", x: (left + width - right) / 2, y: bottom + 33, "text-anchor": "middle" }, width > 500 ? "disagreement score: mean disagreement with the models still in" : "disagreement score"));
  rows.forEach((row, k) => picture.append(scoreRow(data, row, gone.has(row.model), x, top + (k + 0.5) * line, { left, highest, line })));
  return picture;
}

function scoreRow(data, row, leaves, x, y, { left, highest, line }) {
  const kind = leaves ? "leaves" : row.model === data.recommended ? "stays best" : "stays";
  const high = row.high ?? highest;
  const dot = leaves
    ? svg("path", { d: `M${x(row.low) - 4.5},${y - 4.5}l9,9m0,-9l-9,9` })
    : svg("circle", { cx: x((row.low + high) / 2), cy: y, r: line > 16 ? 4.5 : 3.5 });
  return svg("g", { class: kind },
    svg("title", {}, `${data.names[row.model]}: ${interval(row.low, row.high)}`),
    svg("text", { class: "name", x: left - 10, y: y + 4, "text-anchor": "end" }, shortened(data.names[row.model], 24)),
    svg("line", { class: "whisker", x1: x(row.low), x2: Math.max(x(high), x(row.low) + 1), y1: y, y2: y }),
    dot,
    leaves ? svg("text", { class: "fate", x: x(high) + 8, y: y + 4 }, "leaves") : null);
}
