// Exact text: JSON is shown as it was put. Numbers keep their digits, strings their escapes: the
// text is split into tokens and coloured, never parsed and written anew.

import { el, shown } from "./dom.js";
import { bytes, many } from "./format.js";

/** Splits JSON into tokens, each behind the space before it. @param {string} text @returns {string[]} */
const tokens = (text) => text.match(/\s*(?:"(?:[^"\\]|\\.)*"|-?\d[\d.eE+-]*|true|false|null|\S|$)/gsu) ?? [];

/** By how much a token makes what follows deeper. @param {string} token */
const deeper = (token) => /[{[]$/.test(token) ? 1 : /[}\]]$/.test(token) ? -1 : 0;

/**
 * Reads an answer of the API. Payloads and results stay text, and so do integers that a number of
 * JavaScript cannot hold.
 * @param {string} text @returns {any}
 */
export function read(text) {
  const all = tokens(text);
  let at = 0;
  /** The text of the next value. */
  function raw() {
    const from = at;
    let depth = 0;
    do depth += deeper(all[at++]); while (depth > 0 && at < all.length);
    return all.slice(from, at).join("").trim();
  }
  /** Whether a list has another member; steps over what is between two. @param {string} end */
  const goesOn = (end) => all[at].trim() === end ? (at++, false) : (all[at].trim() === "," && at++, true);
  /** @returns {any} */
  function value() {
    const token = all[at++].trim();
    if (token === "{") {
      const found = /** @type {Record<string, any>} */ ({});
      while (goesOn("}")) {
        const key = JSON.parse(all[at]);
        at += 2;
        found[key] = key === "payload" || key === "result" ? raw() : value();
      }
      return found;
    }
    if (token === "[") {
      const found = [];
      while (goesOn("]")) found.push(value());
      return found;
    }
    const found = JSON.parse(token);
    return Number.isInteger(found) && !Number.isSafeInteger(found) ? token : found;
  }
  return value();
}

/** The bytes of a payload that is no JSON. @param {string} base64 */
export const unpack = (base64) => Uint8Array.from(atob(base64), (char) => char.charCodeAt(0));

/** @param {string} token @param {boolean} isKey */
const colour = (token, isKey) => el(`span.j-${token[0] === '"' ? isKey ? "k" : "s" : /^[-\d]/.test(token) ? "n" : /^[tfn]/.test(token) ? "w" : "p"}`, shown(token));

/** What is too long to be shown. @param {any} view @param {number} left */
const note = (view, left) => left > 0 && view.append(el("span.ln dim", `… ${bytes(left)} more: download it`));

/** Tokens that a text may have to be coloured. */
const TOKENS_MAX = 20_000;

/**
 * JSON in lines, with parts to fold.
 * @param {string} text @returns {HTMLElement}
 */
export function jsonView(text) {
  const all = tokens(text).map((token) => token.trim()).filter(Boolean);
  const view = el(".text", { role: "region", tabindex: "0", "aria-label": "Exact text" });
  if (all.length > TOKENS_MAX) {
    view.append(el("span.ln", shown(text.slice(0, 100_000))));
    note(view, text.length - 100_000);
    return view;
  }
  /** What is open, the innermost last. @type {HTMLElement[]} */
  const open = [view];
  /** Begins a line in what is open. */
  const begin = () => {
    const next = el("span.ln", "  ".repeat(open.length - 1));
    open[open.length - 1].append(next);
    return next;
  };
  let line = begin();
  for (const [at, token] of all.entries()) {
    const by = deeper(token), isEmpty = deeper(all[at - 1] ?? "") > 0 && by < 0;
    if (by < 0 && !isEmpty) {
      open.pop();
      line = begin();
    }
    line.append(colour(token, all[at + 1] === ":"), token === ":" ? " " : "");
    if (by > 0 && deeper(all[at + 1] ?? "") >= 0) {
      const inner = el("span.inner");
      if (open.length > 1) line.append(" ", folder(inner, all, at));
      open[open.length - 1].append(inner);
      open.push(inner);
      line = begin();
    }
    if (token === ",") line = begin();
  }
  return view;
}

/** A button that folds the lines of an object or an array. @param {HTMLElement} inner @param {string[]} all @param {number} at where it begins */
function folder(inner, all, at) {
  let depth = 0, members = 1, end = at;
  do {
    depth += deeper(all[end]);
    if (all[end] === "," && depth === 1) members++;
  } while (++end < all.length && depth > 0);
  const what = `${many(members, all[at] === "{" ? "field" : "element")}, ${bytes(all.slice(at, end).join("").length)}`;
  const node = el("button.fold", { type: "button", "aria-expanded": "true", title: "Fold or unfold", onclick: () => {
    inner.hidden = !inner.hidden;
    node.setAttribute("aria-expanded", String(!inner.hidden));
    node.textContent = inner.hidden ? what : "−";
  } }, "−");
  return node;
}

/** Bytes as characters. @param {Uint8Array | number[]} all */
const characters = (all) => [...all].map((byte) => byte > 31 && byte < 127 ? String.fromCharCode(byte) : "·").join("");

/** Bytes as 16 a line, with what of them is text. @param {Uint8Array} all */
export function hexView(all) {
  const view = el(".text hex", { role: "region", tabindex: "0", "aria-label": "Bytes" });
  const hex = (/** @type {number} */ number, digits = 2) => number.toString(16).padStart(digits, "0");
  for (let from = 0; from < Math.min(all.length, 16_384); from += 16) {
    const row = [...all.slice(from, from + 16)];
    view.append(el("span.ln", el("span.j-p", `${hex(from, 6)}  `),
      `${row.map((byte) => hex(byte)).join(" ").padEnd(47)}  `, el("span.j-s", characters(row))));
  }
  note(view, all.length - 16_384);
  return view;
}

/** A payload in one line. @param {{payload: string, payload_base64?: string}} job */
export const preview = (job) => job.payload_base64 === undefined ? shown(job.payload.slice(0, 300))
  : [el("span.dim", "bytes "), characters(unpack(job.payload_base64.slice(0, 400)))];

/** The size of a payload. @param {{payload: string, payload_base64?: string}} job */
export const sizeOf = (job) => job.payload_base64 === undefined ? new Blob([job.payload]).size : Math.floor(job.payload_base64.replace(/=+$/, "").length * 3 / 4);
