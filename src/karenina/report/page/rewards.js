// Rewards, which the selection did not know: good models are dots, bad ones crosses, so that colour is not needed.

function showRewards(data) {
  const rewards = data.rewards;
  if (!rewards) return;
  byId("rewards-figures").replaceChildren(
    figure("Reward against disagreement score", againstScore(data, rewards)),
    ...(rewards.left.length ? [figure("Good and bad models left", ratioChart(rewards.left))] : []),
    figure("Rewards of the models left: least, median, largest", statisticsChart(rewards)));
}

const figure = (caption, picture) => html("figure", { class: "card wide" }, html("figcaption", {}, html("b", {}, caption)), picture);
const verdict = (good) => (good === null ? "unknown" : good ? "good" : "bad");
const [W, H, LEFT, BOTTOM] = [360, 250, 52, 40];

function frame(xs, ys, xLabel, yLabel, wholeX = false) {
  const pad = (ys[1] - ys[0]) * 0.06 || 1;
  const x = scale(xs[0], xs[1], LEFT, W - 12);
  const y = scale(ys[0] - pad, ys[1] + pad, H - BOTTOM, 10);
  const picture = svg("svg", { viewBox: `0 0 ${W} ${H}`, role: "img", "aria-label": `${yLabel} by ${xLabel}` });
  for (const t of ticks(ys[0], ys[1], 5)) picture.append(svg("line", { class: "grid", x1: LEFT, x2: W - 12, y1: y(t), y2: y(t) }), svg("text", { class: "tick", x: LEFT - 6, y: y(t) + 3.5, "text-anchor": "end" }, tickText(t)));
  for (const t of ticks(xs[0], xs[1], 5)) if (!wholeX || Number.isInteger(t)) picture.append(svg("text", { class: "tick", x: x(t), y: H - BOTTOM + 16, "text-anchor": "middle" }, tickText(t)));
  picture.append(svg("text", { class: "axis", x: (LEFT + W - 12) / 2, y: H - 6, "text-anchor": "middle" }, xLabel));
  return { picture, x, y };
}

function symbol(x, y, good, words) {
  const shape = good === false
    ? svg("path", { class: "bad mark", d: `M${x - 4},${y - 4}l8,8m0,-8l-8,8` })
    : svg("circle", { class: `${verdict(good)} mark`, cx: x, cy: y, r: 4.5 });
  shape.append(svg("title", {}, words));
  return shape;
}

function againstScore(data, rewards) {
  const known = data.names.map((_, k) => k).filter((k) => rewards.earned[k] !== null);
  const scores = known.map((k) => (rewards.scores[k][0] + (rewards.scores[k][1] ?? rewards.scores[k][0])) / 2);
  const earned = known.map((k) => rewards.earned[k]);
  const { picture, x, y } = frame([0, Math.max(...scores) * 1.05 || 1], [Math.min(...earned), Math.max(...earned)], "disagreement score, first iteration", rewards.setting);
  if (rewards.threshold !== null && rewards.threshold <= Math.max(...earned)) picture.append(svg("line", { class: "threshold", x1: LEFT, x2: W - 12, y1: y(rewards.threshold), y2: y(rewards.threshold) }));
  known.forEach((k, n) => {
    const survives = data.fates[k] === 0;
    if (survives) picture.append(svg("circle", { class: "halo", cx: x(scores[n]), cy: y(earned[n]), r: 8 }));
    const fate = survives ? "survives" : `removed in iteration ${data.fates[k]}`;
    picture.append(symbol(x(scores[n]), y(earned[n]), rewards.good[k], `${data.names[k]}: ${near(earned[n])}, score ${near(scores[n])}, ${fate}`));
  });
  return picture;
}

function ratioChart(left) {
  const most = Math.max(...left.map((counts) => counts[0] + counts[1] + counts[2]));
  const { picture, x, y } = frame([-0.5, left.length - 0.5], [0, most], "iterations done", "models", true);
  const wide = ((W - LEFT - 12) / left.length) * 0.62;
  left.forEach((counts, k) => {
    let from = 0;
    ["good", "bad", "unknown"].forEach((kind, c) => {
      if (!counts[c]) return;
      const bar = svg("rect", { class: `${kind} bar`, x: x(k) - wide / 2, width: wide, y: y(from + counts[c]), height: y(from) - y(from + counts[c]) });
      bar.append(svg("title", {}, `${counts[c]} ${kind}`));
      picture.append(bar, svg("text", { class: "count", x: x(k), y: (y(from) + y(from + counts[c])) / 2 + 3.5, "text-anchor": "middle" }, `${counts[c]}${kind === "bad" ? "×" : ""}`));
      from += counts[c];
    });
  });
  return picture;
}

function statisticsChart(rewards) {
  const rows = rewards.statistics;
  const { picture, x, y } = frame([-0.3, rows[rows.length - 1][0] + 0.3], [Math.min(...rows.map((r) => r[1])), Math.max(...rows.map((r) => r[3]))], "iterations done", rewards.setting, true);
  for (const [place, kind] of [[1, "least"], [2, "median"], [3, "largest"]]) {
    picture.append(svg("path", { class: `line ${kind}`, d: rows.map((r, k) => `${k ? "L" : "M"}${x(r[0])},${y(r[place])}`).join("") }));
    for (const r of rows) picture.append(svg("circle", { class: `dot ${kind}`, cx: x(r[0]), cy: y(r[place]), r: 3 }, svg("title", {}, `${kind}: ${near(r[place])}`)));
  }
  return picture;
}
