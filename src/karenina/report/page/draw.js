// What every figure needs: elements, numbers, scales, colours. Text goes in as text, never as markup.

const SVG = "http://www.w3.org/2000/svg";

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children.flat().filter((child) => child !== null).map((c) => (c instanceof Node ? c : String(c))));
  return node;
}
const svg = (tag, attributes = {}, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);
const html = (tag, attributes = {}, ...children) => fill(document.createElement(tag), attributes, children);
const byId = (id) => document.getElementById(id);

// --- Numbers ---------------------------------------------------------------------------------------------------------

const DIGITS = 5;
function rounded(value, towards) {
  if (value === null || !Number.isFinite(value)) return "unknown";
  if (value === 0) return "0";
  const step = 10 ** (Math.floor(Math.log10(Math.abs(value))) + 1 - DIGITS);
  return String(Number((towards(value / step) * step).toPrecision(DIGITS))).replace("-", "−");
}
const near = (value) => rounded(value, Math.round);
const atLeast = (value) => rounded(value, Math.floor); // a bound is rounded to the side on which it stays true
const atMost = (value) => rounded(value, Math.ceil);
const interval = (low, high) =>
  high === null || !Number.isFinite(high) ? `at least ${atLeast(low)}` : `${atLeast(low)} to ${atMost(high)}`;

function unpack(text, Kind) {
  const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  return new Kind(bytes.buffer);
}

// --- Scales ----------------------------------------------------------------------------------------------------------

const scale = (from, to, low, high) => (value) => low + ((value - from) / (to - from || 1)) * (high - low);

function ticks(low, high, wanted) {
  if (!(high > low)) return [low];
  const rough = (high - low) / wanted;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((k) => k * power).find((s) => s >= rough);
  const found = [];
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high + step * 1e-9; k++) found.push(k * step);
  return found;
}
const tickText = (value) => String(Number(value.toPrecision(6))).replace("-", "−");

// --- Colours ---------------------------------------------------------------------------------------------------------

const darkness = matchMedia("(prefers-color-scheme: dark)");
let printing = false;
const isDark = () => darkness.matches && !printing;

// From calm to loud; lightness falls (or, on dark, rises) all the way, so it reads without hue, and on paper.
const LIGHT = ["#f6f2e7", "#dfe3e4", "#b4c8d8", "#7da6c8", "#4a7fb0", "#255a90", "#123a6b", "#0a1f45"];
const DARK = ["#18212c", "#1d3450", "#255078", "#3a739f", "#5f99bf", "#93bfd6", "#cbdfe4", "#fdf4dc"];

const channels = (hex) => [1, 3, 5].map((k) => parseInt(hex.slice(k, k + 2), 16));
const SHADES = 256;
const [lightShades, darkShades] = [LIGHT, DARK].map((stops) => Array.from({ length: SHADES }, (_, n) => {
  const at = (n / (SHADES - 1)) * (stops.length - 1);
  const k = Math.min(Math.floor(at), stops.length - 2);
  const [a, b] = [channels(stops[k]), channels(stops[k + 1])];
  return `rgb(${a.map((x, c) => Math.round(x + (b[c] - x) * (at - k))).join(",")})`;
}));
const colour = (share) => (isDark() ? darkShades : lightShades)[Math.round(Math.min(Math.max(share, 0), 1) * (SHADES - 1))];
const ink = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

function sharpCanvas(canvas, width, height) {
  const ratio = window.devicePixelRatio || 1;
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  return context;
}

function colourBar(low, high, label) {
  const stops = Array.from({ length: 9 }, (_, k) => colour(k / 8));
  const bar = html("span", { class: "bar" });
  bar.style.background = `linear-gradient(to right, ${stops.join(",")})`;
  return html("p", { class: "colourbar" }, html("span", {}, near(low)), bar, html("span", {}, near(high)), html("em", {}, label));
}

// A hatch for what is not known, or does not count.
function hatch(context, x, y, width, height) {
  context.save();
  context.beginPath();
  context.rect(x, y, width, height);
  context.clip();
  context.strokeStyle = ink("faint");
  context.lineWidth = 1;
  context.beginPath();
  for (let at = x - height; at < x + width; at += 5) {
    context.moveTo(at, y + height);
    context.lineTo(at + height, y);
  }
  context.stroke();
  context.restore();
}

const shortened = (name, most) => (name.length > most ? `${name.slice(0, most - 1)}…` : name);
