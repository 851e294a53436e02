// Dialogs, notices, and menus.

import { area, button, changing, choice, el, field, input, mark, put, submit } from "./dom.js";
import { duration } from "./format.js";
import { shut } from "./main.js";
import { json } from "./text.js";

/** The open dialog. @type {(() => void) | null} */
let closeOpen = null;

/** Closes the dialog that is open. */
export const closeDialog = () => closeOpen?.();

/** The name of the stage. */
export const stage = document.documentElement.dataset.label ?? "";

/** What was typed wrongly, or what the server has refused. @param {unknown} error */
export const wordsOf = (error) => String(/** @type {Error} */ (error).message);

/**
 * A dialog; focus comes back to where it was.
 * @param {string} title @param {any[]} content
 * @param {{verb: string, kind?: string, act: () => any}} [action] what it is for; `false` from it: not yet
 */
export function dialog(title, content, action) {
  closeDialog();
  const before = /** @type {HTMLElement | null} */ (document.activeElement);
  const problem = el("p.hint bad", { role: "alert" });
  const close = closeOpen = () => {
    node.remove();
    closeOpen = null;
    before?.focus();
  };
  const act = async (/** @type {Event} */ event) => {
    event.preventDefault();
    if (!action || go.disabled) return;
    problem.textContent = "";
    go.disabled = true;
    try {
      if (await action.act() !== false) close();
    } catch (error) {
      problem.textContent = wordsOf(error);
    }
    go.disabled = false;
  };
  const go = action && submit(action.verb, action.kind ?? "go", { "data-changes": true });
  const keep = button(action ? "Cancel" : "Close", close);
  const node = el("dialog.dialog", { "aria-label": title, oncancel: close, onclick: (/** @type {Event} */ event) => event.target === node && close() },
    el("form.form", { onsubmit: act }, el("h2.lead", title), content, problem,
      el(".actions", stage && el("span.env", stage), keep, go)));
  document.body.append(node);
  node.showModal();
  (node.querySelector("input:not([readonly]), textarea") ?? keep).focus();
  return node;
}

/** A confirmation. @param {string} title @param {string} text @param {string} verb @param {() => any} act @param {string} [typed] what has to be typed first @param {Element | null} [more] */
export function confirm(title, text, verb, act, typed, more) {
  const name = input("mono", { id: "typed" });
  const node = dialog(title, [el("p", text), more, typed !== undefined && field("Type the name of the queue to confirm", name)],
    { verb, kind: "grave sure", act });
  if (typed === undefined) return;
  const check = name.oninput = () => { node.querySelector("[type=submit]").disabled = name.value !== typed; };
  check();
}

/**
 * A field of a form: its name in requests, its label, what it takes (`name` or `text`: any text,
 * `whole`: a number without a fraction, `time`: a length of time, `json`, or values to choose from),
 * what it has, what stands there as long as it is empty, and a hint.
 * @typedef {[string, string, string | [string, string][], any?, string?, string?]} Field
 * @typedef {ReturnType<typeof form>} Form
 */

/** Fields and their content. It goes to the server as it is written, digit by digit. @param {Field[]} fields */
export function form(fields) {
  const made = fields.map(([name, label, kind, has, placeholder, hint = ""]) => {
    const wide = kind === "json" || kind === "name";
    const node = typeof kind !== "string" ? choice(kind) : kind === "json" ? area(6) : input(wide ? "mono" : "", { placeholder });
    node.value = kind === "time" && has ? `${has}ms` : has ?? "";
    const below = el("p.hint", hint);
    /** The content as JSON; what is wrong with it is an error. */
    const text = () => {
      const found = node.value.trim(), ms = duration(found);
      if (kind === "json") JSON.parse(found);
      if (kind === "whole" && !/^-?\d+$/.test(found)) throw new Error(`${label}: write a whole number.`);
      if (kind === "time" && isNaN(ms)) throw new Error(`${label}: write a time such as 90s, 10m or 2h.`);
      return kind === "json" || kind === "whole" ? found : json(kind === "time" ? ms : node.value);
    };
    const check = node.oninput = () => {
      let why = "";
      try { if (node.value) text(); } catch (error) { why = wordsOf(error); }
      node.setAttribute("aria-invalid", String(why !== ""));
      below.className = why ? "hint bad" : "hint";
      below.textContent = why || hint;
    };
    return { name, node, text, check, was: node.value, place: field(label, node, below, wide ? "wide" : "") };
  });
  const one = (/** @type {string} */ name) => /** @type {typeof made[0]} */ (made.find((field) => field.name === name));
  return {
    node: el(".fields", made.map(({ place }) => place)),
    get: (/** @type {string} */ name) => one(name).node.value.trim(),
    /** @param {string} name @param {string} text */
    set(name, text) {
      one(name).node.value = text;
      one(name).check();
    },
    /** Those that were filled in, as members of an object; of these names, if there are some. @param {...string} names */
    members: (...names) => made.filter(({ name, node }) => node.value.trim() && (!names.length || names.includes(name)))
      .map(({ name, text }) => `${json(name)}:${text()}`).join(),
    /** The names of those that are not as they were. */
    changed: () => made.filter(({ node, was }) => node.value !== was).map(({ name }) => name),
  };
}

/** Asks for fields. @param {string} title @param {string} about @param {Field[]} fields @param {string} verb @param {(asked: Form) => any} act */
export function ask(title, about, fields, verb, act) {
  const asked = form(fields);
  dialog(title, [about && el("p", about), asked.node], { verb, act: () => act(asked) });
}

/**
 * A notice, which stays until it is closed.
 * @param {"info" | "bad" | ""} kind @param {string} shape @param {string} title @param {any} text @param {any[]} [buttons]
 */
export function notice(kind, shape, title, text, buttons) {
  const node = el(`.notice ${kind}`, { role: kind === "bad" ? "alert" : "status" },
    mark(shape), el("p", el("strong", title), " ", text), el(".actions", buttons ?? button("Close", () => node.remove(), "quiet")));
  return node;
}

/** Where the page that is open says what was done or refused. */
export const notices = el("div");

/** Says on the page what was done. @param {string} title @param {any[]} [buttons] */
export const done = (title, buttons) => notices.prepend(notice("info", "completed", title, "", buttons));

/** Does something; what is refused is shown at a place. @param {() => any} act @param {Element} [place] */
export async function attempt(act, place = notices) {
  put(place);
  try {
    return await act();
  } catch (error) {
    place.prepend(notice("bad", "buried", `${/** @type {any} */ (error).title ?? "That was refused"}.`, wordsOf(error)));
  }
}

/** @typedef {[string, () => void, string?] | false} Entry a text, what it does, and `reads` (it changes nothing) or `grave` */

/** A menu behind a button. @param {string} label @param {() => Entry[]} entries asked for when it is opened @param {any} [face] */
export function menu(label, entries, face) {
  const list = el(".menu", { role: "menu", hidden: true });
  const opener = button(face ?? "⋯", () => show(list.hidden), face ? "quiet" : "square", { "aria-label": label, title: label, "aria-haspopup": "menu" });
  const items = () => [...list.children];
  /** @param {boolean} on */
  function show(on) {
    list.hidden = !on;
    opener.setAttribute("aria-expanded", String(on));
    put(list, on && entries().map((entry) => entry && (entry[2] === "reads" ? button : changing)(entry[0], () => { show(false); entry[1](); }, `quiet ${entry[2] ?? ""}`, { role: "menuitem" })));
    list.classList.toggle("up", on && opener.getBoundingClientRect().bottom + list.offsetHeight > innerHeight - 40);
    if (!on) return;
    shut();
    items()[0].focus();
  }
  show(false);
  const node = el(".menu-place", { onkeydown: (/** @type {KeyboardEvent} */ event) => {
    if (list.hidden) return;
    const by = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;
    if (by) items().at((items().indexOf(/** @type {any} */ (document.activeElement)) + by) % items().length)?.focus();
    else if (event.key === "Escape") { show(false); opener.focus(); } else return;
    event.preventDefault();
    event.stopPropagation();
  }, onfocusout: (/** @type {FocusEvent} */ event) => list.hidden || node.contains(/** @type {any} */ (event.relatedTarget)) || show(false) }, opener, list);
  return node;
}
