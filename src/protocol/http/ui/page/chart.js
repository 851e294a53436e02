// Charts: lines in SVG that are stretched in x only, words beside them that are not. Each has a
// sentence for screen readers.

import { el, svg } from "./dom.js";
import { age, count, moment, rate } from "./format.js";

/** The next of 1, 2, 5 times a power of ten. @param {number} number */
export function round(number) {
  if (number <= 0) return 1;
  const power = 10 ** Math.floor(Math.log10(number));
  return [1, 2, 5, 10].map((step) => step * power).find((step) => step >= number * 0.9999) ?? number;
}

/** @param {number[]} values @param {number} width @param {(value: number) => number} y */
const points = (values, width, y) =>
  values.map((value, at) => `${(at * width / Math.max(1, values.length - 1)).toFixed(1)},${y(value).toFixed(1)}`);

/** @param {string} d @param {string} kind */
const path = (d, kind) => svg("path", { class: kind, d });

/** What is stretched in x. @param {number} width @param {number} height @param {...any} parts */
const plot = (width, height, ...parts) => svg("svg.plot", { viewBox: `0 0 ${width} ${height}`, height, preserveAspectRatio: "none" }, ...parts);

/** Words on the left of a plot. @param {number} height @param {[number | string, string][]} words where, and what */
const scale = (height, words) => svg("svg.ys", { width: 52, height },
  ...words.map(([y, text]) => svg("text", { x: 44, y, "text-anchor": "end" }, text)));

/**
 * @typedef {{name: string, values: number[], kind?: string, last: string}} Line
 * @typedef {{lines: Line[], height?: number, from: number, until: number, label: string, between?: boolean, area?: boolean, format?: (value: number) => string}} Chart
 */

/** The parts between two lines, as areas: where the first is above the second, or below. @param {number[]} above @param {number[]} below @param {number} width @param {(value: number) => number} y */
function areas(above, below, width, y) {
  const top = points(above, width, y), bottom = points(below, width, y);
  const found = [];
  for (let from = 0; from < above.length - 1;) {
    const grows = above[from] + above[from + 1] >= below[from] + below[from + 1];
    let to = from + 1;
    while (to < above.length - 1 && (above[to] + above[to + 1] >= below[to] + below[to + 1]) === grows) to++;
    found.push(path(`M${top.slice(from, to + 1).join(" ")} L${bottom.slice(from, to + 1).reverse().join(" ")}Z`, grows ? "a-grow" : "a-shrink"));
    from = to;
  }
  return found;
}

/** Lines over time. @param {Chart} chart */
export function lines({ lines: all, height = 168, from, until, label, between, area, format = rate }) {
  const width = 720;
  const top = round(Math.max(...all.flatMap((line) => line.values), 0));
  const ticks = height > 120 ? [0, 0.25, 0.5, 0.75, 1] : [0, 0.5, 1];
  const y = (/** @type {number} */ value) => height - value / top * height;
  const drawn = plot(width, height, ...ticks.map((tick) => path(`M0,${y(tick * top)}h${width}`, tick ? "gl" : "gl base")));
  if (all[0].values.length > 1) {
    if (between) drawn.append(...areas(all[0].values, all[1].values, width, y));
    for (const { values, kind = "" } of all) {
      const line = points(values, width, y);
      if (area) drawn.append(path(`M0,${height} L${line.join(" ")} L${width},${height}Z`, "a-soft"));
      drawn.append(path(`M${line.join(" ")}`, `l ${kind}`), path(`M${line[line.length - 1]}h0`, `l end ${kind}`));
    }
  } else {
    drawn.append(svg("rect.gap", { x: 0, y: 0, width, height }));
  }
  const ys = scale(height, ticks.map((tick) => [y(tick * top) + 4, tick % 1 && format(tick * top) === format(top) ? "" : format(tick * top)]));
  // Names at the ends of their lines, which keep their distance.
  const ends = all.map((line) => ({ line, at: y(line.values[line.values.length - 1] ?? 0) + 4 })).sort((a, b) => a.at - b.at);
  for (let at = 1; at < ends.length; at++) ends[at].at = Math.max(ends[at].at, ends[at - 1].at + 15);
  const over = ends.length ? Math.max(0, ends[ends.length - 1].at - height - 2) : 0;
  const words = svg("svg", { width: 84, height },
    ...ends.map(({ line, at }) => svg(`text.me ${line.kind ?? ""}`, { x: 8, y: at - over }, `${line.name} ${line.last}`)));
  const sentence = all.map((line) => `${line.name} ${line.last}`).join(", ");
  return el("figure.chart", { role: "img", "aria-label": `${label}: now ${sentence}; the axis ends at ${format(top)}` },
    ys, drawn, words, axis(from, until, height < 120));
}

/** The times below a chart. @param {number} from @param {number} until @param {boolean} [few] */
function axis(from, until, few) {
  const short = until - from < 6 * 60_000;
  const time = (/** @type {number} */ part) => new Date(from + (until - from) * part).toISOString().slice(11, short ? 19 : 16);
  const parts = few || short ? [0, 0.5, 1] : [0, 0.25, 0.5, 0.75, 1];
  return times(parts.map((part) => [part, time(part)]));
}

/** Words below a plot. @param {[number, string][]} words at which part of its width, and what */
const times = (words) => svg("svg.xs", { width: "100%", height: 20 },
  ...words.map(([part, text]) => svg("text", { x: `${part * 100}%`, y: 16, "text-anchor": part === 0 ? "start" : part === 1 ? "end" : "middle" }, text)));

/** Bars of what came in less what went out. @param {number[]} values @param {string} last */
export function net(values, last) {
  const width = 720, height = 40, half = height / 2;
  const top = round(Math.max(...values.map(Math.abs), 0));
  const step = width / Math.max(1, values.length);
  const bars = values.map((value, at) => {
    const size = Math.abs(value) / top * half;
    return svg("rect", { class: value > 0 ? "b amber" : "b accent", x: (at * step + step * 0.15).toFixed(1), width: (step * 0.7).toFixed(1), y: (value > 0 ? half - size : half).toFixed(1), height: size.toFixed(1) });
  });
  return el("figure.chart net", { role: "img", "aria-label": `What came in less what was done: now ${last}` },
    scale(height, [[4, `+${rate(top)}`], [half + 4, "0"], [height + 4, `−${rate(top)}`]]),
    plot(width, height, path(`M0,${half}h${width}`, "gl base"), ...bars),
    svg("svg", { width: 84, height }, svg("text.me", { x: 8, y: half + 4 }, `net ${last}`)));
}

/** Sums of neighbours, so that a line has at most so many points. @param {number[]} values @param {number} max */
export function thin(values, max) {
  const each = Math.ceil(values.length / max);
  if (each <= 1) return values;
  const found = [];
  for (let end = values.length; end > 0; end -= each) {
    const some = values.slice(Math.max(0, end - each), end);
    found.unshift(some.reduce((sum, value) => sum + value, 0) / some.length);
  }
  return found;
}

/** A small line in a table. All rows share one logarithmic scale. @param {number[]} values @param {number} top */
export function spark(values, top) {
  const width = 112, height = 20;
  const y = (/** @type {number} */ value) => height - Math.log1p(value) / Math.log1p(Math.max(top, 1)) * (height - 2);
  const line = points(values.length > 1 ? values : [0, values[0] ?? 0], width, y);
  return svg("svg", { viewBox: `0 0 ${width} 24` },
    path(`M0,${height} L${line.join(" ")} L${width},${height}Z`, "a-soft"), path(`M${line.join(" ")}`, "l"), path(`M${line[line.length - 1]}h0`, "l end"));
}

/** The top of the scale that small lines share. @param {number[]} all */
export function shared(all) {
  const most = Math.max(...all, 1);
  const power = 10 ** Math.floor(Math.log10(most));
  return [1, 3, 10].map((step) => step * power).find((step) => step >= most) ?? most;
}

/** A figure with its last minutes. @param {string} name @param {(number | null)[]} values @param {string} last @param {number} top @param {string} topText @param {string} [kind] */
export function mini(name, values, last, top, topText, kind = "thin") {
  const known = values.map((value) => Math.min(value ?? 0, top));
  const width = 200, height = 48;
  const y = (/** @type {number} */ value) => height - 1 - value / (top || 1) * (height - 4);
  const line = points(known, width, y);
  return el(".mini", { role: "img", "aria-label": `${name}: ${last}` },
    el(".caption", name, el("b", last)),
    plot(width, height, path(`M0,0h${width}`, "gl"), path(`M0,${height}h${width}`, "gl base"),
      ...known.length > 1 ? [path(`M${line.join(" ")}`, `l ${kind}`), path(`M${line[line.length - 1]}h0`, `l end ${kind}`)] : []),
    el(".range", { "aria-hidden": "true" }, el("span", "0"), el("span", topText)));
}

/** Bars of a histogram of times. @param {{bounds: number[], counts: number[]}} values @param {string} label @param {number} old from here on, it is too long */
export function histogram(values, label, old) {
  const first = values.counts.findIndex((number) => number > 0);
  const used = values.counts.slice(Math.max(0, first), values.counts.length - 1);
  while (used.length > 4 && used[used.length - 1] === 0) used.pop();
  const bounds = values.bounds.slice(Math.max(0, first), Math.max(0, first) + used.length);
  const width = 400, height = 96, step = width / Math.max(1, used.length);
  const top = round(Math.max(...used, 1));
  const bars = used.map((number, at) => svg("rect", { class: bounds[at] > old ? "b amber" : "b", x: (at * step + 1).toFixed(1), width: (step - 2).toFixed(1), y: (height - number / top * height).toFixed(1), height: (number / top * height).toFixed(1) }));
  const some = [0, 0.5, 1].map((part) => bounds[Math.round(part * (bounds.length - 1))] ?? 0);
  return el("figure.chart", { role: "img", "aria-label": `${label}: ${used.map((number, at) => `${count(number)} up to ${age(bounds[at])}`).join(", ")}` },
    scale(height, [1, 0.5, 0].map((part) => [height - part * height + 4, count(Math.round(part * top))])),
    plot(width, height, path(`M0,${height}h${width}`, "gl base"), path(`M0,0h${width}`, "gl"), path(`M0,${height / 2}h${width}`, "gl"), ...bars),
    svg("svg", { width: 8, height }),
    times(some.map((bound, at) => [at / 2, age(bound)])));
}

/**
 * The life of a job: a lane for each state, a bar while it was in it.
 * @param {{state: string, from: number, until: number}[]} spans @param {(name: string) => Node} name
 */
export function lanes(spans, name) {
  const order = ["scheduled", "blocked", "ready", "reserved", "buried", "completed"].filter((state) => spans.some((span) => span.state === state));
  const kinds = /** @type {Record<string, string>} */ ({ ready: "ink", reserved: "accent", buried: "bad", completed: "good", blocked: "amber" });
  const from = spans[0].from, until = spans[spans.length - 1].until;
  const width = 720, height = order.length * 20;
  const x = (/** @type {number} */ at) => (at - from) / Math.max(1, until - from) * width;
  const parts = [];
  for (const [at, span] of spans.entries()) {
    const middle = order.indexOf(span.state) * 20 + 10;
    if (at) parts.push(path(`M${x(span.from).toFixed(1)},${order.indexOf(spans[at - 1].state) * 20 + 10}V${middle}`, "l thin"));
    parts.push(svg(`rect.b ${kinds[span.state] ?? ""}`, { x: Math.min(x(span.from), width - 3).toFixed(1), y: middle - 4, height: 8, width: Math.max(3, x(span.until) - x(span.from)).toFixed(1) }));
  }
  return el(".lanes", { role: "img", "aria-label": `States over time: ${spans.map((span) => `${span.state} at ${moment(span.from)}`).join(", ")}` },
    el(".names", ...order.map(name)),
    plot(width, height, ...order.map((_, at) => path(`M0,${at * 20 + 10}h${width}`, "gl")), ...parts),
    axis(from, until));
}
