// The table of disagreements. Hover or arrow keys read a cell; a click or Enter opens the pair.

const FONT = (size) => `${size}px system-ui, sans-serif`;

function showHeatMap(data, table, open) {
  const canvas = byId("heat");
  const number = data.names.length;
  const largestOf = (values, least) => values.reduce((a, b) => (Number.isFinite(b) && b > a ? b : a), least);
  const largest = largestOf(table.lower, 1e-12);
  const most = largestOf(table.upper, largest);
  const base = document.createElement("canvas"); // the table without marks, so that moving about is quick
  let layout = null;
  let cursor = null; // [row, column] in the order shown
  let chosen = null; // the pair that is open

  const order = () => data.orders[byId("order").value];
  const value = (i, j) => (byId("bound").value === "upper" ? table.bound(i, j)[1] : table.bound(i, j)[0]);
  const top = () => (byId("bound").value === "upper" ? most : largest);

  function draw() {
    const places = order();
    const room = Math.min(canvas.parentElement.clientWidth, 760);
    const wide = labelWidth();
    const labelled = (room - wide) / number >= 11;
    const margin = labelled ? wide : 2;
    const cell = Math.max(2, Math.min(48, Math.floor((room - margin) / number))); // whole pixels, or seams show
    const size = margin + cell * number + 2;
    const context = sharpCanvas(base, size, size);
    layout = { margin, cell, places, size };
    const gap = cell >= 8 ? 1 : 0;
    places.forEach((i, row) => places.forEach((j, column) => drawCell(context, i, j, margin + column * cell, margin + row * cell, cell - gap)));
    if (labelled) drawLabels(context, places, margin, cell);
    drawGroups(context, margin, cell);
    byId("heat-bar").replaceChildren(colourBar(0, top(), byId("bound").value === "upper" ? "disagree by at most" : "disagree by at least"));
    show();
  }

  function show() {
    const context = sharpCanvas(canvas, layout.size, layout.size);
    context.drawImage(base, 0, 0, layout.size, layout.size);
    mark(context);
  }

  function labelWidth() {
    const pen = base.getContext("2d");
    pen.font = FONT(12);
    return Math.max(...data.names.map((name) => pen.measureText(shortened(name, 14)).width)) + 14;
  }

  function drawCell(context, i, j, x, y, size) {
    if (i === j) return;
    const v = value(i, j);
    if (!Number.isFinite(v)) return hatch(context, x, y, size, size);
    context.fillStyle = colour(v / top());
    context.fillRect(x, y, size, size);
    if (table.note(i, j)) hatch(context, x, y, size, size);
    const [low, high] = table.bound(i, j);
    if (size >= 12 && high - low > data.tolerance * 1.01) { // a corner for pairs that are known less exactly
      context.fillStyle = v / top() > 0.45 === isDark() ? "rgba(0,0,0,.55)" : "rgba(255,255,255,.75)";
      context.beginPath();
      context.moveTo(x + size, y);
      context.lineTo(x + size - 5, y);
      context.lineTo(x + size, y + 5);
      context.fill();
    }
  }

  function drawLabels(context, places, margin, cell) {
    context.font = FONT(Math.min(12, cell - 1));
    context.textBaseline = "middle";
    places.forEach((model, k) => {
      const at = margin + (k + 0.5) * cell;
      context.fillStyle = data.fates[model] ? ink("muted") : ink("stay");
      context.textAlign = "right";
      context.fillText(shortened(data.names[model], 14), margin - 6, at);
      context.save();
      context.translate(at, margin - 6);
      context.rotate(-Math.PI / 2);
      context.textAlign = "left";
      context.fillText(shortened(data.names[model], 14), 0, 0);
      context.restore();
    });
  }

  // A frame around the survivors, or around each camp, where they stand together.
  function drawGroups(context, margin, cell) {
    const survivors = layout.places.filter((m) => !data.fates[m]);
    const groups = byId("order").value === "clustering" ? data.camps : [survivors];
    context.strokeStyle = ink("text");
    context.lineWidth = 1.5;
    for (const group of groups) {
      const at = group.map((m) => layout.places.indexOf(m));
      const [first, last] = [Math.min(...at), Math.max(...at)];
      if (last - first + 1 !== group.length) continue;
      const from = margin + first * cell - 0.5;
      context.strokeRect(from, from, (last - first + 1) * cell, (last - first + 1) * cell);
    }
  }

  function mark(context) {
    const { margin, cell, places } = layout;
    const frame = (row, column, style, width) => {
      context.strokeStyle = style;
      context.lineWidth = width;
      const size = Math.max(cell, 5);
      context.strokeRect(margin + column * cell - 0.5, margin + row * cell - 0.5, size, size);
    };
    if (chosen) {
      const at = chosen.map((m) => places.indexOf(m));
      frame(at[0], at[1], ink("leave"), 2.5);
      frame(at[1], at[0], ink("leave"), 2.5);
    }
    if (cursor) frame(cursor[0], cursor[1], ink("leave"), 1.5);
  }

  function read(row, column) {
    const [i, j] = [layout.places[row], layout.places[column]];
    const words = i === j ? data.names[i] : `${data.names[i]} and ${data.names[j]}: ${interval(...table.bound(i, j))} (${[table.status(i, j), table.note(i, j)].filter(Boolean).join("; ")})`;
    byId("heat-text").textContent = words;
  }

  function under(event) {
    const box = canvas.getBoundingClientRect();
    const place = (at) => Math.floor((at - layout.margin) / layout.cell);
    const [row, column] = [place(event.clientY - box.top), place(event.clientX - box.left)];
    return row >= 0 && column >= 0 && row < number && column < number ? [row, column] : null;
  }

  function choose() {
    if (!cursor || cursor[0] === cursor[1]) return;
    open(layout.places[cursor[0]], layout.places[cursor[1]], true);
  }

  canvas.addEventListener("mousemove", (event) => {
    const at = under(event);
    if (at && String(at) !== String(cursor)) {
      cursor = at;
      read(...at);
      show();
    }
  });
  canvas.addEventListener("mouseleave", () => {
    cursor = null;
    show();
  });
  canvas.addEventListener("click", (event) => {
    cursor = under(event);
    choose();
  });
  canvas.addEventListener("keydown", (event) => {
    const moves = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
    if (event.key === "Enter" || event.key === " ") {
      choose();
    } else if (moves[event.key]) {
      const from = cursor ?? [0, 0];
      cursor = from.map((at, k) => Math.min(Math.max(at + moves[event.key][k], 0), number - 1));
      read(...cursor);
      show();
    } else return;
    event.preventDefault();
  });
  for (const id of ["order", "bound"]) byId(id).addEventListener("change", draw);
  addEventListener("resize", draw);
  return {
    draw,
    choose(i, j) {
      chosen = [i, j];
      show();
    },
  };
}
