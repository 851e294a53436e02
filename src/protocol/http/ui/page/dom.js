// Elements: everything on the page is made here, from text. Nothing is ever parsed as markup.

import { age, bytes, count, moment, share } from "./format.js";
import { encode } from "./text.js";

/** @typedef {Node | string | number | null | undefined | false} Child */

/** What stands for nothing among children and attributes. @param {any} value */
const isNothing = (value) => value === null || value === undefined || value === false;

/** Replaces what is in a node. @param {Element} node @param {...(Child | Child[])} children */
export const put = (node, ...children) =>
  node.replaceChildren(.../** @type {any[]} */ (children.flat().filter((child) => !isNothing(child))));

/**
 * Fills a node that was made for `what`: its tag, and behind a point its classes.
 * @param {Element} node @param {string} what @param {any[]} parts attributes, if the first one is a
 * plain object (`on...` are listeners, `null` and `false` are left out); then children
 */
function make(node, what, [first, ...rest]) {
  const isPlain = first?.constructor === Object;
  const attributes = { class: what.split(/\.(.*)/s)[1], ...isPlain && first };
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (!isNothing(value)) node.setAttribute(name, value === true ? "" : value);
  }
  put(node, isPlain ? null : first, ...rest);
  return node;
}

/** `el("dd.num bad", { title }, ...children)`; without a tag it is a `div`. @param {string} what @param {...any} parts @returns {any} */
export const el = (what, ...parts) =>
  make(document.createElement(what.split(".")[0] || "div"), what, parts);

/** The same in a picture, which is for the eye alone. @param {string} what @param {...any} parts @returns {any} */
export function svg(what, ...parts) {
  const tag = what.split(".")[0];
  const node = make(document.createElementNS("http://www.w3.org/2000/svg", tag), what, parts);
  if (tag === "svg") node.setAttribute("aria-hidden", "true");
  return node;
}

/** Sets a text if it is another one. @param {Element} node @param {string} text */
export function say(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

/** The shapes of states, in a square of 12. @type {Record<string, string>} */
const SHAPES = {
  scheduled: "M6 1a5 5 0 1 0 .01 0ZM6 3v3l2 1", blocked: "M1 1h10v10H1ZM4 6h4", ready: "M6 2a4 4 0 1 0 .01 0Z",
  reserved: "M3 1 10 6 3 11Z", buried: "m2 2 8 8m0-8-8 8", completed: "m1 6 4 4L11 3", paused: "M4 2v8M8 2v8",
  stuck: "M6 1 11 11H1ZM6 5v2M6 9v.1", find: "M7 2a5 5 0 1 0 .01 0ZM11 11l3 3", theme: "M8 2a6 6 0 1 0 .01 0v12M8 5h4M8 8h6M8 11h4",
  copy: "M5 5h9v9H5ZM2 11V2h9", close: "m4 4 8 8m0-8-8 8", plus: "M8 3v10M3 8h10", down: "M8 2v9m-4-4 4 4 4-4M3 14h10",
};

/** @param {string} kind @param {number} size @param {string} d */
export const shape = (kind, size, d) =>
  svg(`svg.${kind}`, { viewBox: `0 0 ${size} ${size}` }, svg("path", { d }));

/** The mark of a state. @param {string} name */
export const mark = (name) => shape(`st ${name}`, 12, SHAPES[name]);

/** @param {string} name */
export const capital = (name) => name.charAt(0).toUpperCase() + name.slice(1);

/** A state in a word, with its mark. @param {string} name */
export const state = (name) => el("span.state", mark(name), capital(name));

/** @param {string} kind @param {string} name a shape, or none @param {string} text */
export const tag = (kind, name, text) =>
  el(`span.tag ${kind}`, name && mark(name), el("span.tx", shown(text)));

/**
 * @param {Child | Child[]} text @param {() => any} act
 * @param {string} [kind] go, grave, quiet, square @param {Record<string, any>} [attributes]
 */
export const button = (text, act, kind = "", attributes) =>
  el(`button.btn ${kind}`, { type: "button", onclick: act, ...attributes }, text);

/** A button that changes something: it is off while the server is away. @param {Child | Child[]} text @param {() => any} act @param {string} [kind] @param {Record<string, any>} [attributes] */
export const changing = (text, act, kind, attributes) =>
  button(text, act, kind, { ...attributes, "data-changes": true });

/** What a form is sent by. @param {string} text @param {string} [kind] @param {Record<string, any>} [attributes] */
export const submit = (text, kind = "go", attributes) =>
  button(text, () => {}, kind, { type: "submit", ...attributes });

/** A square button with a sign. @param {string} sign @param {string} label @param {() => any} act @param {Record<string, any>} [attributes] */
export const iconButton = (sign, label, act, attributes) =>
  button(sign, act, "square quiet", { "aria-label": label, title: label, ...attributes });

/** @param {string} href @param {...any} parts as those of `el` */
export function link(href, ...parts) {
  const node = el("a", ...parts);
  node.setAttribute("href", href);
  return node;
}

/** A link that looks like a button. @param {string} href @param {Child | Child[]} text @param {Record<string, any>} [attributes] */
export const buttonLink = (href, text, attributes) => link(href, { class: "btn quiet", ...attributes }, text);

// Control characters, what has no width or another one than a space, and what turns the direction
// of text round.
const HIDDEN = /(?! )[\p{Cc}\p{Cs}\p{Z}\p{DI}\ufff9-\ufffd]/gu;

/** @param {string} char */
function escapeOf(char) {
  const code = /** @type {number} */ (char.codePointAt(0)).toString(16).padStart(4, "0");
  return code.length > 4 ? `\\u{${code}}` : `\\u${code}`;
}

/** Text of a user: what cannot be seen is shown as an escape. @param {string} text @returns {Child[]} */
export function shown(text) {
  const hidden = text.match(HIDDEN) ?? [];
  return text.split(HIDDEN).flatMap((part, at) => at < hidden.length ? [part, el("span.esc", escapeOf(hidden[at]))] : part);
}

/** The same as a plain string, for titles and labels. @param {string} text */
export const plain = (text) => text.replace(HIDDEN, escapeOf);

/** What is before the last part of a name. @param {string} name */
export const prefixOf = (name) => name.slice(0, name.lastIndexOf(".", name.length - 2) + 1);

/** The name of a queue: its prefix is dim. @param {string} name @returns {Child[]} */
export function queueName(name) {
  const prefix = prefixOf(name);
  return name === "" ? [el("span.dim", "(empty name)")]
    : [prefix && el("span.pre", shown(prefix)), ...shown(name.slice(prefix.length))];
}

/** The name of a queue in a sentence. @param {string} name */
export const queueWords = (name) => plain(name) || "the queue without a name";

/** @param {string} name */
export const queueHref = (name) => `#/queue/${encode(name)}`;

/** @param {string} name @param {string} [kind] */
export const queueLink = (name, kind) => link(queueHref(name), { title: plain(name), class: kind }, queueName(name));

/** @param {number} id @param {string} [kind] */
export const jobLink = (id, kind) => link(`#/job/${id}`, { class: kind }, id);

/** Goes to another page. @param {string} href */
export const go = (href) => { location.hash = href; };

/** A field with its label. @param {string} label @param {HTMLElement} node @param {Child} [hint] @param {string} [kind] */
export function field(label, node, hint, kind = "") {
  node.id ||= `f${++fields}`;
  return el(`.field ${kind}`, el("label.label", { for: node.id }, label), node, hint);
}
let fields = 0;

/** @param {string} [classes] @param {Record<string, any>} [attributes] @returns {HTMLInputElement} */
export const input = (classes = "", attributes) =>
  el(`input.input ${classes}`, { autocomplete: "off", spellcheck: "false", ...attributes });

/** @param {number} rows @returns {HTMLTextAreaElement} */
export const area = (rows) => el("textarea.input mono", { rows, spellcheck: "false" });

/** @param {[string, string][]} options value and text @param {Record<string, any>} [attributes] @returns {HTMLSelectElement} */
export const choice = (options, attributes) =>
  el("select.input", attributes, options.map(([value, text]) => el("option", { value }, text)));

/** A box to tick with its words. @param {string} text @param {boolean} checked @returns {any} */
export function tick(text, checked) {
  const box = el("input", { type: "checkbox" });
  box.checked = checked;
  return { box, node: el("label", box, ` ${text}`) };
}

/** Buttons of which one is pressed. @param {string} label @param {[string, Child | Child[]][]} options @param {string} chosen @param {(value: string) => void} act */
export function segments(label, options, chosen, act) {
  const press = (/** @type {string} */ value) => {
    for (const [at, node] of buttons.entries()) node.setAttribute("aria-pressed", options[at][0] === value);
  };
  const buttons = options.map(([value, text]) =>
    el("button", { type: "button", onclick: () => { press(value); act(value); } }, text));
  press(chosen);
  return el(".seg", { role: "group", "aria-label": label }, buttons);
}

/** Names that do not say it themselves. @type {Record<string, string>} */
const WORDS = { pri: "Priority", ttr_ms: "Time to run", ttl_ms: "Time to live", max_attempts: "Attempts", "job-centre": "Job Centre", http: "HTTP", beanstalkd: "beanstalkd" };

/** The name of a field of the API as words, without its unit. @param {string} name */
export const words = (name) =>
  WORDS[name] ?? capital(name.replace(/_(ms|ns|bytes|millionths|at)$/, "").replace(/_/g, " "));

/** A value of the API as people read it: its name ends with its unit. @param {string} name @param {any} value @returns {Child | Child[]} */
export function value(name, value) {
  if (value === null || value === undefined) return "–";
  if (/_ms$/.test(name)) return age(value);
  if (/_ns$/.test(name)) return age(value / 1e6);
  if (/_millionths$/.test(name)) return share(value / 1e6);
  if (/bytes$|^max_(memory|request)$/.test(name)) return bytes(value);
  if (/_at$|until$|since$|^at$/.test(name)) return moment(value, true);
  if (name === "queue") return queueLink(value, "link");
  if (Array.isArray(value)) return value.flatMap((one) => [typeof one === "number" ? jobLink(one, "link") : plain(one), " "]);
  if (typeof value === "boolean") return value ? el(/^(draining|full|paused)$/.test(name) ? "span.warn" : "span", "yes") : "no";
  return typeof value === "string" ? shown(value) : count(value);
}

/** What is known of something: the fields of an answer of the API that have values. @param {string} title @param {any} object */
export const facts = (title, object) => object && el("div", el("h2.kv-head", title), el("dl.kv",
  Object.entries(object).filter(([, one]) => !isNothing(one) && one.constructor !== Object && one.length !== 0 || one === false)
    .map(([name, one]) => el("div", el("dt", words(name)), el("dd", value(name, one))))));

/** Figures in a row, and how they are said anew. @param {string} kind @param {string} label @param {[string, string][]} heads a shape or none, and a title */
export function figures(kind, label, heads) {
  const cells = heads.map(([name, title]) => ({ title: el("dt", name && mark(name), title), number: el("dd.num"), note: el("dd.note") }));
  return {
    node: el(`dl.figs ${kind}`, { "aria-label": label }, cells.map((cell) => el("div", Object.values(cell)))),
    /** @param {number} at @param {string} number @param {string} note @param {string} [tone] */
    say(at, number, note, tone = "") {
      say(cells[at].number, number);
      say(cells[at].note, note);
      cells[at].note.className = `note ${tone}`;
    },
  };
}

/** A section with its heading. @param {string} title @param {Child} about @param {...(Child | Child[])} children */
export const section = (title, about, ...children) => el("section.section", { "aria-label": title },
  el(".section-head", el("h2", title), about && el("p", about)), ...children);

/** A page without a list: what is wrong, or missing. @param {string} title @param {Child | Child[]} text @param {Child[]} [buttons] */
export const nothing = (title, text, buttons) =>
  el(".gone", el("h2.lead", title), el("p.soft", text), buttons && el(".actions", buttons));

/** Copies text, also where the browser has no clipboard for pages that came without TLS. @param {string} text */
async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const area = el("textarea.hidden-text");
    area.value = text;
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }
}

/** A button that copies. @param {Child | Child[]} face @param {string} label @param {() => string} text */
export function copyButton(face, label, text) {
  const node = button(face, async () => {
    await copy(text());
    node.classList.add("done");
    setTimeout(() => node.classList.remove("done"), 1200);
  }, "quiet", { "aria-label": label, title: label });
  return node;
}

/** Saves bytes as a file. @param {BlobPart} content @param {string} name @param {string} [type] */
export function save(content, name, type = "application/json") {
  const href = URL.createObjectURL(new Blob([content], { type }));
  link(href, { download: name }).click();
  setTimeout(() => URL.revokeObjectURL(href), 60_000);
}
