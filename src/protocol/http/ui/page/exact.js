// Exact text: JSON is shown as it was put. Numbers keep their digits, strings their escapes: the
// text is split into tokens and coloured, never parsed and written anew.

import { el, shown } from "./dom.js";
import { bytes, many } from "./format.js";

/** Members whose values stay text. */
const RAW = new Set(["payload", "result"]);

const TOKEN = /\s+|"(?:[^"\\]|\\.)*"|-?\d[\d.eE+-]*|true|false|null|[{}[\],:]|./gsu;

/** Splits JSON into tokens. @param {string} text @returns {string[]} */
export const tokens = (text) => text.match(TOKEN) ?? [];

/**
 * Reads an answer of the API. Payloads and results stay text, and so do integers that a number of
 * JavaScript cannot hold.
 * @param {string} text @returns {any}
 */
export function read(text) {
  const all = tokens(text);
  let at = 0;
  const skip = () => { while (at < all.length && all[at].trim() === "") at++; };
  /** The text of the next value. */
  function raw() {
    skip();
    const from = at;
    let depth = 0;
    do {
      const token = all[at++];
      if (token === "{" || token === "[") depth++;
      else if (token === "}" || token === "]") depth--;
    } while (depth > 0 && at < all.length);
    return all.slice(from, at).join("");
  }
  /** @returns {any} */
  function value() {
    skip();
    const token = all[at];
    if (token === "{") {
      const found = /** @type {Record<string, any>} */ ({});
      for (at++, skip(); all[at] !== "}" && at < all.length; skip()) {
        const key = JSON.parse(all[at++]);
        skip();
        at++;
        found[key] = RAW.has(key) ? raw() : value();
        skip();
        if (all[at] === ",") at++;
      }
      at++;
      return found;
    }
    if (token === "[") {
      const found = [];
      for (at++, skip(); all[at] !== "]" && at < all.length; skip()) {
        found.push(value());
        skip();
        if (all[at] === ",") at++;
      }
      at++;
      return found;
    }
    at++;
    const read = JSON.parse(token);
    return typeof read === "number" && Number.isInteger(read) && !Number.isSafeInteger(read) ? token : read;
  }
  return value();
}

/** The bytes of a payload that is no JSON. @param {string} base64 */
export const unpack = (base64) => Uint8Array.from(atob(base64), (char) => char.charCodeAt(0));

/** @param {string} token @param {boolean} isKey */
function kind(token, isKey) {
  if (token[0] === '"') return isKey ? "j-k" : "j-s";
  if (/^[-\d]/.test(token)) return "j-n";
  return /^[tfn]/.test(token) ? "j-w" : "j-p";
}

const colours = (/** @type {string} */ token, /** @type {boolean} */ isKey) => el("span", { class: kind(token, isKey) }, ...shown(token));

/** Tokens that a text may have to be coloured, and lines that are shown at first. */
const TOKENS_MAX = 20_000;

/**
 * JSON in lines, with parts to fold.
 * @param {string} text @returns {HTMLElement}
 */
export function jsonView(text) {
  const all = tokens(text).filter((token) => token.trim() !== "");
  const view = el(".text", { role: "region", tabindex: "0", "aria-label": "Exact text" });
  if (all.length > TOKENS_MAX) {
    view.append(el("span.ln", ...shown(text.slice(0, 100_000))));
    if (text.length > 100_000) view.append(el("span.ln dim", `… ${bytes(text.length - 100_000)} more: download it`));
    return view;
  }
  let line = el("span.ln");
  /** @type {HTMLElement[]} */
  let into = [view];
  const end = () => { into[into.length - 1].append(line); };
  const begin = (/** @type {number} */ depth) => { line = el("span.ln", "  ".repeat(depth)); };
  let depth = 0;
  for (const [at, token] of all.entries()) {
    const next = all[at + 1], before = all[at - 1];
    const opens = token === "{" || token === "[", closes = token === "}" || token === "]";
    if (opens && next !== "}" && next !== "]") {
      line.append(colours(token, false));
      depth++;
      if (depth > 1) {
        const inner = el("span.inner");
        fold(line, inner, all, at);
        end();
        into[into.length - 1].append(inner);
        into.push(inner);
      } else {
        end();
      }
      begin(depth);
      continue;
    }
    if (closes && before !== "{" && before !== "[") {
      end();
      if (depth > 1) into.pop();
      depth--;
      begin(depth);
    }
    line.append(colours(token, next === ":"));
    if (token === ":") line.append(" ");
    if (token === ",") {
      end();
      begin(depth);
    }
  }
  end();
  return view;
}

/** A button that folds the lines of an object or an array. @param {HTMLElement} line @param {HTMLElement} inner @param {string[]} all @param {number} at */
function fold(line, inner, all, at) {
  let depth = 0, members = 1, size = 0;
  for (let place = at; place < all.length; place++) {
    const token = all[place];
    size += token.length;
    if (token === "{" || token === "[") depth++;
    else if (token === "}" || token === "]") depth--;
    else if (token === "," && depth === 1) members++;
    if (depth === 0) break;
  }
  const what = all[at] === "{" ? many(members, "field") : many(members, "element");
  const node = el("button.fold", { type: "button", "aria-expanded": "true", title: "Fold or unfold", onclick: () => {
    inner.hidden = !inner.hidden;
    node.setAttribute("aria-expanded", String(!inner.hidden));
    node.textContent = inner.hidden ? `${what}, ${size} bytes` : "−";
  } }, "−");
  line.append(" ", node);
}

/** Bytes as 16 a line, with what of them is text. @param {Uint8Array} all */
export function hexView(all) {
  const view = el(".text hex", { role: "region", tabindex: "0", "aria-label": "Bytes" });
  const hex = (/** @type {number} */ number, /** @type {number} */ digits) => number.toString(16).padStart(digits, "0");
  for (let from = 0; from < Math.min(all.length, 16_384); from += 16) {
    const row = [...all.slice(from, from + 16)];
    const text = row.map((byte) => byte > 31 && byte < 127 ? String.fromCharCode(byte) : "·").join("");
    view.append(el("span.ln", el("span.j-p", `${hex(from, 6)}  `),
      `${row.map((byte) => hex(byte, 2)).join(" ").padEnd(47)}  `, el("span.j-s", text)));
  }
  if (all.length > 16_384) view.append(el("span.ln dim", `… ${bytes(all.length - 16_384)} more: download it`));
  return view;
}

/** A payload in one line. @param {{payload: string, payload_base64?: string}} job */
export function preview(job) {
  if (job.payload_base64 === undefined) return shown(job.payload.slice(0, 300));
  const all = unpack(job.payload_base64.slice(0, 400));
  return [el("span.dim", "bytes "), ...[...all].map((byte) => byte > 31 && byte < 127 ? String.fromCharCode(byte) : "·")];
}

const encoder = new TextEncoder();

/** The size of a payload. @param {{payload: string, payload_base64?: string}} job */
export const sizeOf = (job) => job.payload_base64 === undefined
  ? encoder.encode(job.payload).length
  : Math.floor(job.payload_base64.replace(/=+$/, "").length * 3 / 4);

/**
 * Where JSON is wrong: a sentence, or nothing. @param {string} text
 */
export function wrong(text) {
  try {
    JSON.parse(text);
    return "";
  } catch (error) {
    const message = String(/** @type {Error} */ (error).message);
    const at = /position (\d+)/.exec(message);
    if (!at) return message;
    const before = text.slice(0, Number(at[1])).split("\n");
    return `Line ${before.length}, character ${before[before.length - 1].length + 1}: ${message.replace(/ in JSON at position.*/, "")}`;
  }
}
