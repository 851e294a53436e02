// Elements: everything on the page is made here, from text. Nothing is ever parsed as markup.

import { encode } from "./text.js";

const SVG = "http://www.w3.org/2000/svg";

/** @typedef {Node | string | number | null | undefined | false} Child */

/**
 * @param {Element} node
 * @param {Record<string, any>} attributes `on...` are listeners, `null` and `false` are left out.
 * @param {Child[]} children
 */
function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  add(node, children);
}

/** @param {ParentNode} node @param {(Child | Child[])[]} children */
export function add(node, children) {
  for (const child of children.flat()) {
    if (child !== null && child !== undefined && child !== false) node.append(typeof child === "number" ? String(child) : child);
  }
}

/**
 * Fills a node that was made for `what`: its tag, and behind a point its classes.
 * @param {Element} node @param {string} what @param {any[]} parts attributes, if the first one is a plain object; then children
 */
function make(node, what, parts) {
  const classes = what.split(/\.(.*)/s)[1];
  if (classes) node.setAttribute("class", classes);
  fill(node, parts[0]?.constructor === Object ? parts.shift() : {}, parts.flat());
  return node;
}

/** `el("dd.num bad", { title }, ...children)`; without a tag it is a `div`. @param {string} what @param {...any} parts @returns {any} */
export const el = (what, ...parts) => make(document.createElement(what.split(".")[0] || "div"), what, parts);

/** The same; a picture is for the eye alone, unless it has a role. @param {string} what @param {...any} parts @returns {any} */
export function svg(what, ...parts) {
  const node = make(document.createElementNS(SVG, what.split(".")[0]), what, parts);
  if (/^svg/.test(what) && !node.hasAttribute("role")) node.setAttribute("aria-hidden", "true");
  return node;
}

/** Replaces what is in a node. @param {Element} node @param {...(Child | Child[])} children */
export function put(node, ...children) {
  node.replaceChildren();
  add(node, children);
}

/** Sets a text if it is another one. @param {Element} node @param {string} text */
export function say(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

/** @param {string} name */
export const icon = (name) => svg("svg.icon", svg("use", { href: `#i-${name}` }));

/** The mark of a state. @param {string} name */
export const mark = (name) => svg(`svg.st ${name}`, svg("use", { href: `#s-${name}` }));

/** @param {string} name */
export const capital = (name) => name.charAt(0).toUpperCase() + name.slice(1);

/** A state in a word, with its mark. @param {string} name */
export const state = (name) => el("span.state", mark(name), capital(name));

/** @param {string} kind @param {string} shape @param {string} text */
export const tag = (kind, shape, text) => el(`span.tag ${kind}`, shape && mark(shape), el("span.tx", ...shown(text)));

/**
 * @param {string} text
 * @param {() => any} act
 * @param {string | Record<string, any>} [attributes] its kind (go, grave, quiet), or attributes, among them `kind` and `icon`
 */
export function button(text, act, attributes = "") {
  const { kind = "", icon: shape, ...rest } = typeof attributes === "string" ? { kind: attributes } : attributes;
  return el(`button.btn ${kind}`, { type: "button", onclick: act, ...rest }, shape && icon(shape), text);
}

/** A button that changes something: it is off while the server is away. @param {string} text @param {() => any} act @param {string | Record<string, any>} [attributes] */
export function changing(text, act, attributes) {
  const node = button(text, act, attributes);
  node.dataset.changes = "";
  return node;
}

/** A square button with an icon. @param {string} shape @param {string} label @param {() => any} act @param {Record<string, any>} [rest] */
export const iconButton = (shape, label, act, rest = {}) =>
  button("", act, { kind: "square quiet", icon: shape, "aria-label": label, title: label, ...rest });

/** @param {string} href @param {...any} parts as those of `el` */
export function link(href, ...parts) {
  const node = el("a", ...parts);
  node.setAttribute("href", href);
  return node;
}

/** A link that looks like a button. @param {string} href @param {...any} children */
export const buttonLink = (href, ...children) => link(href, { class: "btn" }, ...children);

// Control characters, what has no width, and what turns the direction of text round.
const HIDDEN = /[\u0000-\u001f\u007f-\u00a0\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202f\u205f-\u206f\u3000\u3164\ud800-\udfff\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffd]|[\u{1bca0}-\u{1bca3}\u{1d173}-\u{1d17a}\u{e0000}-\u{e0fff}]/gu;

/** @param {string} char */
function escapeOf(char) {
  const code = char.codePointAt(0) ?? 0;
  return code > 0xffff ? `\\u{${code.toString(16)}}` : `\\u${code.toString(16).padStart(4, "0")}`;
}

/** Text of somebody: what cannot be seen is shown as an escape. @param {string} text @returns {(Node | string)[]} */
export function shown(text) {
  const parts = [];
  let from = 0;
  for (const found of text.matchAll(HIDDEN)) {
    if (found.index > from) parts.push(text.slice(from, found.index));
    parts.push(el("span.esc", escapeOf(found[0])));
    from = found.index + found[0].length;
  }
  if (from < text.length) parts.push(text.slice(from));
  return parts;
}

/** The same as a plain string, for titles and labels. @param {string} text */
export const plain = (text) => text.replace(HIDDEN, escapeOf);

/** What is before the last part of a name. @param {string} name */
export const prefixOf = (name) => name.slice(0, name.lastIndexOf(".", name.length - 2) + 1);

/** The name of a queue: its prefix is dim. @param {string} name @returns {(Node | string)[]} */
export function queueName(name) {
  if (name === "") return [el("span.dim", "(empty name)")];
  const prefix = prefixOf(name);
  return [prefix && el("span.pre", ...shown(prefix)), ...shown(name.slice(prefix.length))];
}

/** @param {string} name */
export const queueHref = (name) => `#/queue/${encode(name)}`;

/** @param {string} name */
export const queueLink = (name) => link(queueHref(name), { title: plain(name) }, ...queueName(name));

/** A field with its label. @param {string} label @param {HTMLElement} input @param {string} [hint] */
export function field(label, input, hint) {
  input.id ||= `f${++fields}`;
  return el(".field", el("label.label", { for: input.id }, label), input, hint && el("p.hint", hint));
}
let fields = 0;

/** @param {string} [classes] @param {Record<string, any>} [attributes] @returns {HTMLInputElement} */
export const input = (classes = "", attributes = {}) => el(`input.input ${classes}`, { ...attributes, autocomplete: "off", spellcheck: "false" });

/** @param {[string, string][]} options value and text @param {Record<string, any>} [attributes] @returns {HTMLSelectElement} */
export const choice = (options, attributes = {}) =>
  el("select", { ...attributes, class: `input ${attributes.class ?? ""}` }, ...options.map(([value, text]) => el("option", { value }, text)));

/** Buttons of which one is pressed. @param {string} label @param {[string, Child | Child[]][]} options @param {string} chosen @param {(value: string) => void} act */
export function segments(label, options, chosen, act) {
  const buttons = options.map(([value, text]) =>
    el("button", { type: "button", "aria-pressed": String(value === chosen), onclick: () => {
      for (const [at, other] of buttons.entries()) other.setAttribute("aria-pressed", String(options[at][0] === value));
      act(value);
    } }, ...[text].flat()));
  return el(".seg", { role: "group", "aria-label": label }, ...buttons);
}

/** A list of names and values. @param {string} title @param {[string, Child | Child[]][]} rows */
export const facts = (title, rows) => el("div",
  el("h2.kv-head", title),
  el("dl.kv", ...rows.map(([name, value]) => el("div", el("dt", name), el("dd", value)))));

/** A section with its heading. @param {string} title @param {Child} about @param {...(Child | Child[])} children */
export const section = (title, about, ...children) => el("section.section", { "aria-label": title },
  el(".section-head", el("h2", title), about && el("p", about)), ...children);

/** Copies text, also where the browser has no clipboard for pages that came without TLS. @param {string} text */
export async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const area = el("textarea.hidden-text", { "aria-hidden": "true", tabindex: "-1" });
    area.value = text;
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }
}

/** A button that copies. @param {() => string} text @param {string} label */
export function copyButton(text, label) {
  const node = iconButton("copy", label, async () => {
    await copy(text());
    node.classList.add("done");
    setTimeout(() => node.classList.remove("done"), 1200);
  });
  return node;
}

/** Saves bytes as a file. @param {BlobPart} content @param {string} name @param {string} type */
export function save(content, name, type) {
  const url = URL.createObjectURL(new Blob([content], { type }));
  el("a", { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}
