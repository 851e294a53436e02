// Dialogs, and notices at the place where something was asked for.

import { button, changing, el, mark, put } from "./dom.js";
import { shut } from "./main.js";

/** The open dialog. @type {(() => void) | null} */
let closeOpen = null;

/** Closes what is uppermost. Returns whether there was something. */
export function closeDialog() {
  const had = closeOpen !== null;
  closeOpen?.();
  return had;
}

/** The name of the stage. */
export const stage = () => document.documentElement.dataset.label ?? "";

/**
 * A dialog; focus comes back to where it was.
 * @param {string} title @param {any[]} content
 * @param {{verb: string, kind?: string, keep?: string, act: () => Promise<any> | any}} [action] what it is for
 */
export function dialog(title, content, action) {
  closeDialog();
  const before = /** @type {HTMLElement | null} */ (document.activeElement);
  const problem = el("p.hint bad", { role: "alert" });
  const close = () => {
    node.close();
    node.remove();
    closeOpen = null;
    before?.focus?.();
  };
  const act = async () => {
    if (go?.disabled) return;
    problem.textContent = "";
    go.disabled = true;
    try {
      if (await action?.act() !== false) close();
    } catch (error) {
      problem.textContent = String(/** @type {Error} */ (error).message);
    } finally {
      go.disabled = false;
    }
  };
  const go = action && el(`button.btn large ${action.kind ?? "go"}`, { type: "submit", "data-changes": true }, action.verb);
  const keep = button(action ? action.keep ?? "Cancel" : "Close", close, "large");
  const submit = (/** @type {Event} */ event) => {
    event.preventDefault();
    act();
  };
  const node = el("dialog.dialog", { "aria-label": title },
    el("form", { onsubmit: submit }, el("h2", title), ...content, problem,
      el(".actions", stage() && el("span.env", stage()), keep, go)));
  node.addEventListener("cancel", (/** @type {Event} */ event) => { event.preventDefault(); close(); });
  node.addEventListener("click", (/** @type {Event} */ event) => { if (event.target === node) close(); });
  document.body.append(node);
  node.showModal();
  (node.querySelector("input, textarea, select") ?? keep).focus();
  closeOpen = close;
  return { node, close };
}

/** A confirmation. @param {string} title @param {string} text @param {string} verb @param {() => any} act @param {{keep?: string, typed?: string, rows?: any[]}} [options] `typed`: what has to be typed first */
export function confirm(title, text, verb, act, { keep = "Keep them", typed, rows = [] } = {}) {
  const input = el("input.input mono full large", { id: "typed", autocomplete: "off", spellcheck: "false" });
  const hint = el("p.hint");
  const content = [el("p", text), ...rows];
  if (typed !== undefined) content.push(el("label.label", { for: "typed" }, "Type the name of the queue to confirm"), input, hint);
  const { node } = dialog(title, content, { verb, kind: "grave sure", keep, act });
  if (typed === undefined) {
    /** @type {HTMLElement} */ (node.querySelector(".actions .btn")).focus();
    return;
  }
  const go = node.querySelector("button[type=submit]");
  const check = () => {
    go.disabled = input.value !== typed;
    hint.textContent = go.disabled ? `${typed.startsWith(input.value) ? `${typed.length - input.value.length} letters to go` : "That is another name"}.` : "That is it.";
  };
  input.addEventListener("input", check);
  check();
  input.focus();
}

/**
 * A notice, which stays until it is closed.
 * @param {"info" | "bad" | ""} kind @param {string} shape @param {string} title @param {string} text @param {any[]} [buttons]
 */
export const notice = (kind, shape, title, text, buttons = []) => el(`.notice ${kind}`, { role: kind === "bad" ? "alert" : "status" },
  mark(shape), el("p", el("strong", title), " ", text), el(".actions", ...buttons));

/** Shows what was refused, at a place. @param {Element} place @param {string} title @param {unknown} error */
export function refused(place, title, error) {
  const node = notice("bad", "buried", title, String(/** @type {Error} */ (error).message), [button("Close", () => node.remove(), "quiet")]);
  place.prepend(node);
}

/** Does something; what is refused is shown at a place. @param {Element} place @param {string} title @param {() => Promise<any>} act */
export async function attempt(place, title, act) {
  for (const old of place.querySelectorAll(":scope > .notice")) old.remove();
  try {
    return await act();
  } catch (error) {
    if (/** @type {Error} */ (error).name !== "AbortError") refused(place, title, error);
    return undefined;
  }
}

/**
 * A menu behind a button. @param {string} label
 * @param {() => ({text: string, kind?: string, reads?: boolean, act: () => void} | false)[]} entries asked for when it is opened; `reads`: it changes nothing
 * @param {any[]} [face]
 */
export function menu(label, entries, face) {
  const list = el(".menu", { role: "menu", hidden: true });
  const opener = el(`button.btn ${face ? "quiet" : "square"}`, { type: "button", "aria-label": label, title: label, "aria-haspopup": "menu", "aria-expanded": "false", onclick: () => show(list.hidden) }, ...face ?? ["⋯"]);
  const items = () => [...list.children];
  /** @param {boolean} on */
  function show(on) {
    list.hidden = !on;
    opener.setAttribute("aria-expanded", String(on));
    put(list, ...on ? entries().map((entry) => entry && (entry.reads ? button : changing)(entry.text, () => { show(false); entry.act(); }, { kind: `quiet ${entry.kind ?? ""}`, role: "menuitem" })) : []);
    list.classList.toggle("up", on && opener.getBoundingClientRect().bottom + list.offsetHeight > innerHeight - 40);
    if (on) {
      shut();
      items()[0].focus();
    }
  }
  const node = el(".menu-place", { onkeydown: (/** @type {KeyboardEvent} */ event) => {
    if (list.hidden) return;
    const at = items().indexOf(/** @type {any} */ (document.activeElement));
    const by = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;
    if (by) items().at((at + by) % items().length)?.focus();
    else if (event.key === "Escape") { show(false); opener.focus(); } else return;
    event.preventDefault();
    event.stopPropagation();
  }, onfocusout: (/** @type {FocusEvent} */ event) => {
    if (!node.contains(/** @type {Node | null} */ (event.relatedTarget)) && !list.hidden) show(false);
  } }, opener, list);
  return node;
}

/** Fills a place with an icon and a sentence, where there is nothing. @param {Element} place @param {string} title @param {...any} text */
export const nothing = (place, title, ...text) => put(place, el(".gone", el("h2.lead", title), el("p.soft", ...text)));
