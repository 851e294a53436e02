// Numbers, times and sizes as people read them. The figures of a column have one form.

const counts = new Intl.NumberFormat("en");

/** @param {any} number */
export const count = (number) => typeof number === "number" ? counts.format(number) : number ?? "–";

/** A rate a second. @param {number} number */
export const rate = (number) =>
  number >= 100 ? count(Math.round(number)) : number ? number.toFixed(number < 1 ? 2 : 1) : "0";

/** @param {number} number */
export const change = (number) =>
  (number > 0 ? "+" : number < 0 ? "−" : "") + count(Math.abs(Math.round(number)));

/** A length of time in milliseconds: two units at most. @param {number | null | undefined} ms */
export function age(ms) {
  if (ms === null || ms === undefined) return "–";
  if (ms < 1000) return `${Number(ms.toFixed(ms < 1 ? 2 : ms < 10 ? 1 : 0))} ms`;
  const [s, m, h, d] = [1, 60, 3600, 86_400].map((each) => Math.floor(ms / 1000 / each));
  const two = (/** @type {number} */ number) => String(number).padStart(2, "0");
  if (m < 1) return `${s < 10 ? (ms / 1000).toFixed(1) : s} s`;
  return h < 1 ? `${m}m ${two(s % 60)}s` : d < 1 ? `${h}h ${two(m % 60)}m` : `${d}d ${two(h % 24)}h`;
}

/** @param {number | null | undefined} number */
export function bytes(number) {
  if (number === null || number === undefined) return "–";
  const at = Math.min(4, Math.floor(Math.log2(number || 1) / 10)), size = number / 1024 ** at;
  return `${at && size < 10 ? size.toFixed(1) : Math.round(size)} ${["B", "KiB", "MiB", "GiB", "TiB"][at]}`;
}

/** @param {number} part */
export const share = (part) => `${(part * 100).toFixed(1)} %`;

/** A moment in UTC: today the time alone. @param {string | number | null | undefined} at @param {boolean} [exact] with milliseconds */
export function moment(at, exact) {
  if (!at) return "–";
  const [day, time] = new Date(at).toISOString().split("T");
  return (now().toISOString().startsWith(day) ? "" : `${day} `) + time.slice(0, exact ? 12 : 8);
}

/** Milliseconds by which the server's clock is before ours. */
let skew = 0;

/** The time of the server. */
export const now = () => new Date(Date.now() + skew);

/** @param {string | null} date the `Date` of a response */
export function noteClock(date) {
  const by = Date.parse(date ?? "") - Date.now();
  // The field has whole seconds: small differences say nothing.
  skew = Math.abs(by) > 2000 ? by : 0;
}

/** How long ago, or until then. @param {string | null | undefined} at */
export const apart = (at) => at ? age(Math.abs(Date.parse(at) - +now())) : "–";

/** @typedef {{bounds: number[], counts: number[]}} Histogram */

/**
 * The value that this part of the values of a histogram does not exceed, from classes that double.
 * @param {Histogram} later @param {Histogram | undefined} earlier @param {number} part
 */
export function quantile({ bounds, counts: all }, earlier, part) {
  const classes = all.map((number, at) => number - (earlier?.counts[at] ?? 0));
  let rank = part * classes.reduce((sum, number) => sum + number, 0);
  if (rank <= 0) return null;
  const at = classes.findIndex((number) => number > 0 && rank <= number || (rank -= number, false));
  const lower = bounds[at - 1] ?? 0, upper = bounds[at] ?? lower * 2;
  return lower + (upper - lower) * (rank / classes[at]);
}

/** `1 job`, `2 jobs`. @param {number} number @param {string} [one] */
export const many = (number, one = "job") => `${count(number)} ${one}${number === 1 ? "" : "s"}`;

/** Reads a length of time such as 90, 1500ms, 10m; in milliseconds, or NaN. @param {string} text */
export function duration(text) {
  const [, number = NaN, unit = "s"] = /^\s*(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)?\s*$/.exec(text) ?? [];
  const units = /** @type {Record<string, number>} */ ({ ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 });
  return Math.round(Number(number) * units[unit]);
}
