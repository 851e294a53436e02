// Numbers, times and sizes as people read them. The figures of a column have one form.

const counts = new Intl.NumberFormat("en");

/** @param {number | string | null | undefined} number */
export const count = (number) => number === null || number === undefined ? "–" : typeof number === "string" ? number : counts.format(number);

/** A rate a second. @param {number} number */
export function rate(number) {
  if (!number) return "0";
  if (number >= 100) return counts.format(Math.round(number));
  return number >= 10 ? number.toFixed(1) : number >= 1 ? number.toFixed(1) : number.toFixed(2);
}

/** @param {number} number @param {string} [none] */
export const change = (number, none = "0") => number === 0 ? none : `${number > 0 ? "+" : "−"}${counts.format(Math.abs(Math.round(number)))}`;

/** A length of time in milliseconds: two units at most. @param {number | null | undefined} ms */
export function age(ms) {
  if (ms === null || ms === undefined) return "–";
  const two = (/** @type {number} */ number) => String(number).padStart(2, "0");
  if (ms < 1) return ms > 0 ? `${ms.toFixed(2)} ms` : "0 ms";
  if (ms < 1000) return `${ms < 10 && ms % 1 ? ms.toFixed(1) : Math.round(ms)} ms`;
  const s = Math.floor(ms / 1000);
  if (s < 10) return `${(ms / 1000).toFixed(1)} s`;
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)}m ${two(s % 60)}s`;
  if (s < 86400) return `${Math.floor(s / 3600)}h ${two(Math.floor(s / 60) % 60)}m`;
  return `${Math.floor(s / 86400)}d ${two(Math.floor(s / 3600) % 24)}h`;
}

/** @param {number | null | undefined} number */
export function bytes(number) {
  if (number === null || number === undefined) return "–";
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let at = 0;
  while (number >= 1024 && at < units.length - 1) [number, at] = [number / 1024, at + 1];
  return `${at && number < 10 ? number.toFixed(1) : Math.round(number)} ${units[at]}`;
}

/** @param {number} part */
export const share = (part) => `${(part * 100).toFixed(1)} %`;

/** A moment in UTC: today the time alone. @param {string | number | null | undefined} at @param {boolean} [exact] with milliseconds */
export function moment(at, exact) {
  if (at === null || at === undefined) return "–";
  const text = new Date(at).toISOString();
  const time = text.slice(11, exact ? 23 : 19);
  return text.slice(0, 10) === new Date(now()).toISOString().slice(0, 10) ? time : `${text.slice(0, 10)} ${time}`;
}

/** Milliseconds by which the server's clock is before ours. */
let skew = 0;

/** The time of the server. */
export const now = () => Date.now() + skew;

/** @param {string | null} date the `Date` of a response */
export function noteClock(date) {
  const at = date ? Date.parse(date) : NaN;
  // The field has whole seconds: small differences say nothing.
  if (!isNaN(at)) skew = Math.abs(at - Date.now()) > 2000 ? at - Date.now() : 0;
}

/** How long ago. @param {string | null} at */
export const since = (at) => at === null ? null : Math.max(0, now() - Date.parse(at));

/**
 * The value that this part of the values of a histogram does not exceed, from classes that double.
 * @param {{bounds: number[], counts: number[]}} later
 * @param {{bounds: number[], counts: number[]} | undefined} earlier @param {number} part
 */
export function quantile(later, earlier, part) {
  const classes = later.counts.map((number, at) => number - (earlier?.counts[at] ?? 0));
  const total = classes.reduce((sum, number) => sum + number, 0);
  if (total <= 0) return null;
  let rank = part * total;
  for (const [at, number] of classes.entries()) {
    if (rank <= number && number > 0) {
      const upper = later.bounds[at] ?? later.bounds[at - 1] * 2;
      const lower = at ? later.bounds[at - 1] : 0;
      return lower + (upper - lower) * (rank / number);
    }
    rank -= number;
  }
  return later.bounds[later.bounds.length - 1];
}

/** `1 job`, `2 jobs`. @param {number} number @param {string} [one] @param {string} [many] */
export const many = (number, one = "job", many = `${one}s`) => `${counts.format(number)} ${number === 1 ? one : many}`;

/** Reads a length of time such as 90, 1500ms, 10m; in milliseconds, or NaN. @param {string} text */
export function duration(text) {
  const found = /^\s*(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)?\s*$/.exec(text);
  const units = /** @type {Record<string, number>} */ ({ ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 });
  return found ? Math.round(Number(found[1]) * units[found[2] ?? "s"]) : NaN;
}
