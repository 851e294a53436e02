// Charts: lines in SVG that are stretched in x only, words beside them that are not. Each has a
// sentence for screen readers.

import { el, svg } from "./dom.js";
import { count, moment, rate } from "./format.js";

/** What lines and bars are drawn in. */
const WIDTH = 720;

/** The next of these steps times a power of ten. @param {number} number @param {number[]} [steps] */
const round = (number, steps = [1, 2, 5, 10]) => {
  const power = 10 ** Math.floor(Math.log10(number || 1));
  return power * /** @type {number} */ (steps.find((step) => step * power >= number * 0.9999));
};

/** The top of the scale that small lines share. @param {number[]} all */
export const shared = (all) => round(Math.max(...all, 1), [1, 3, 10]);

/** @param {string} kind @param {string} d */
const path = (kind, d) => svg("path", { class: kind, d });

/** @param {string} kind @param {number} x @param {number} y @param {number} width @param {number} height */
const bar = (kind, x, y, width, height) => svg(`rect.b ${kind}`, { x, y, width, height });

/** A place of a drawing. @param {number} number */
const short = (number) => Number(number.toFixed(1));

/** A line as points. @param {number[]} values @param {number} width @param {(value: number) => number} y */
const points = (values, width, y) =>
  values.map((value, at) => `${short(at * width / Math.max(1, values.length - 1))},${short(y(value))}`);

/** A line with its last point, and what is below it. @param {string} kind @param {string[]} line @param {number} [floor] */
const drawn = (kind, line, floor) => [
  floor ? path("a-soft", `M0,${floor} L${line.join(" ")} V${floor}Z`) : null,
  path(`l ${kind}`, `M${line.join(" ")}`), path(`l end ${kind}`, `M${line[line.length - 1]}h0`),
];

/** What is stretched in x. @param {number} height @param {...any} parts */
const plot = (height, ...parts) =>
  svg("svg.plot", { viewBox: `0 0 ${WIDTH} ${height}`, height, preserveAspectRatio: "none" }, ...parts);

/** @param {number} y @param {string} [kind] */
const rule = (y, kind = "") => path(`gl ${kind}`, `M0,${y}h${WIDTH}`);

/** A chart with its words. @param {string} label @param {number} height @param {[number, string][]} scale where, and what @param {any} drawing @param {[number, string, string?][]} ends where, what, and its kind @param {any} [below] */
const chart = (label, height, scale, drawing, ends, below) => el("figure.chart", { role: "img", "aria-label": label },
  svg("svg.ys", { width: 52, height }, scale.map(([y, text]) => svg("text", { x: 44, y: y + 4, "text-anchor": "end" }, text))), drawing,
  svg("svg", { width: 84, height }, ends.map(([y, text, kind = ""]) => svg(`text.me ${kind}`, { x: 8, y: y + 4 }, text))), below);

/**
 * @typedef {{name: string, values: number[], kind?: string, last: string}} Line
 * @typedef {{lines: Line[], height?: number, from: number, until: number, label: string, format?: (value: number) => string}} Chart
 */

/** Lines over time; one alone has an area. @param {Chart} chart */
export function lines({ lines: all, height = 96, from, until, label, format = rate }) {
  const top = round(Math.max(...all.flatMap((line) => line.values), 0));
  const ticks = height > 120 ? [0, 0.25, 0.5, 0.75, 1] : [0, 0.5, 1];
  const y = (/** @type {number} */ value) => height - value / top * height;
  // Names at the ends of their lines, which keep their distance.
  const ends = all.map((line) => ({ line, at: y(line.values[line.values.length - 1] ?? 0) })).sort((a, b) => a.at - b.at);
  for (const [at, end] of ends.entries()) if (at) end.at = Math.max(end.at, ends[at - 1].at + 15);
  const over = Math.max(0, ends[ends.length - 1].at - height);
  return chart(`${label}: now ${all.map((line) => `${line.name} ${line.last}`).join(", ")}; the axis ends at ${format(top)}`, height,
    ticks.map((tick) => [y(tick * top), tick % 1 && format(tick * top) === format(top) ? "" : format(tick * top)]),
    plot(height, ticks.map((tick) => rule(y(tick * top), tick ? "" : "base")),
      all[0].values.length < 2 ? svg("rect.gap", { width: WIDTH, height })
        : all.flatMap(({ values, kind = "" }) => drawn(kind, points(values, WIDTH, y), all.length > 1 ? 0 : height))),
    ends.map(({ line, at }) => [at - over, `${line.name} ${line.last}`, line.kind]), axis(from, until, height < 120));
}

/** The times below a chart. @param {number} from @param {number} until @param {boolean} [few] */
function axis(from, until, few) {
  const isShort = until - from < 360_000, parts = few || isShort ? 2 : 4;
  return svg("svg.xs", { width: "100%", height: 20 }, Array.from({ length: parts + 1 }, (_, at) => svg("text",
    { x: `${at * 100 / parts}%`, y: 16, "text-anchor": at === 0 ? "start" : at === parts ? "end" : "middle" },
    new Date(from + (until - from) * at / parts).toISOString().slice(11, isShort ? 19 : 16))));
}

/** Bars of what came in less what went out. @param {number[]} values @param {string} last */
export function net(values, last) {
  const height = 40, half = height / 2, step = WIDTH / Math.max(1, values.length);
  const top = round(Math.max(...values.map(Math.abs), 0));
  return chart(`What came in less what was done: now ${last}`, height,
    [[0, `+${rate(top)}`], [half, "0"], [height, `−${rate(top)}`]],
    plot(height, rule(half, "base"), values.map((value, at) => {
      const size = Math.abs(value) / top * half;
      return bar(value > 0 ? "amber" : "accent", short(at * step), short(value > 0 ? half - size : half), short(step * 0.7), short(size));
    })), [[half, `net ${last}`]]);
}

/** Means of neighbours, so that a line has a limited number of points. @param {number[]} values @param {number} max */
export function thin(values, max) {
  const each = Math.ceil(values.length / max), found = [];
  for (let end = values.length; end > 0; end -= each) {
    const some = values.slice(Math.max(0, end - each), end);
    found.unshift(some.reduce((sum, value) => sum + value, 0) / some.length);
  }
  return found;
}

/** A small line in a table. All rows share one logarithmic scale. @param {number[]} values @param {number} top */
export function spark(values, top) {
  const y = (/** @type {number} */ value) => 20 - Math.log1p(value) / Math.log1p(top) * 18;
  return svg("svg", { viewBox: "0 0 112 24" }, drawn("", points(values.length > 1 ? values : [0, ...values], 112, y), 20));
}

/** A figure with its last minutes. @param {string} name @param {number[]} values @param {string} last @param {number} top @param {string} topText @param {string} kind */
export function mini(name, values, last, top, topText, kind) {
  const line = points(values, WIDTH, (value) => 47 - Math.min(1, value / top) * 44);
  return el(".mini", { role: "img", "aria-label": `${name}: ${last}` }, el(".caption", name, el("b", last)),
    plot(48, rule(0), rule(48, "base"), line.length > 1 && drawn(kind, line)),
    el(".range", el("span", "0"), el("span", topText)));
}

/**
 * The life of a job: a lane for each state, a bar while it was in it.
 * @param {{state: string, from: number, until: number}[]} spans @param {(name: string) => Node} name
 */
export function lanes(spans, name) {
  const order = ["scheduled", "blocked", "ready", "reserved", "buried", "completed"].filter((state) => spans.some((span) => span.state === state));
  const from = spans[0].from, until = spans[spans.length - 1].until;
  const x = (/** @type {number} */ at) => short((at - from) / Math.max(1, until - from) * WIDTH);
  const middle = (/** @type {string} */ state) => order.indexOf(state) * 20 + 10;
  return el(".lanes", { role: "img", "aria-label": `States over time: ${spans.map((span) => `${span.state} at ${moment(span.from)}`).join(", ")}` },
    el(".names", order.map(name)),
    plot(order.length * 20, order.map((state) => rule(middle(state))), spans.flatMap((span, at) => [
      at > 0 && path("l thin", `M${x(span.from)},${middle(spans[at - 1].state)}V${middle(span.state)}`),
      bar(span.state, Math.min(x(span.from), WIDTH - 3), middle(span.state) - 4, Math.max(3, x(span.until) - x(span.from)), 8)])),
    axis(from, until));
}

/** An amount as a figure of a chart. @param {number} value */
export const amount = (value) => count(Math.round(value));
