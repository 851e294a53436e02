// Tables: cells change in place, rows keep their place until they are to be ordered anew, and the
// keyboard moves a cursor over them.

import { button, el, iconButton, put, value } from "./dom.js";

/**
 * A column: its classes, its label, and the content of a cell, which is a field of the row, or made
 * of the row: a text, a node, or several.
 * `mark`: a text that changes when the cell does, if its own text says too little or is dear to
 * make; `tone`: the class of the cell, never a text of a user.
 * @typedef {[string, string, string | ((row: any) => any), {sort?: string, direction?: string, mark?: (row: any) => any, tone?: (row: any) => string | false}?]} Column
 * @typedef {{mark: string, node: HTMLElement}} Cell
 */

/** The table that the keys are for. @type {any} */
let current = null;

/** The table on this page, if there is one. */
export const currentTable = () => current?.node.isConnected ? current : null;

/** A last column with a button that ends what is in the row. @param {(row: any) => string | false} label @param {(row: any) => any} act @returns {Column} */
export const ending = (label, act) => ["more", "", (row) => {
  const text = label(row);
  return text && iconButton("×", text, () => act(row), { "data-changes": true });
}, { mark: label }];

/**
 * `chosen`: what can be done with the rows that are chosen, in the bar above the table; `tools`: what
 * is there otherwise; `open`: what a click on a row does.
 * @typedef {{label: string, columns: (Column | false)[], kind?: string, open?: (row: any) => void, tools?: any[], chosen?: ((chosen: Set<string>) => any[]) | false, sort?: string, onSort?: (sort: string) => void}} Options
 * @param {Options} options
 */
export function table({ label, columns: some, kind = "", open, tools = [], chosen: choices, sort: sorted, onSort }) {
  const columns = /** @type {Column[]} */ (some.filter(Boolean));
  /** @type {Map<string, {node: any, cells: Cell[], row: any, box?: any}>} */
  const rows = new Map();
  /** @type {Set<string>} */
  const chosen = new Set();
  let cursor = "", anchor = "", toldSizes = "";
  const body = el("tbody"), bar = el(".bar", tools);
  const box = (/** @type {string} */ text, /** @type {(event: any) => void} */ onclick) =>
    choices && el("input", { type: "checkbox", "aria-label": text, onclick });
  const pickCell = (/** @type {any} */ content) => choices && el("td.pick", content);
  const all = box("All on this page", () => {
    for (const key of rows.keys()) pick(key, all.checked);
    told();
  });
  const head = el("thead", el("tr", pickCell(all), columns.map(([classes, text, , { sort, direction = "descending" } = {}]) =>
    el("th", { scope: "col", class: classes, "aria-sort": sort && sort === sorted ? direction : null },
      sort ? el("button.sort", { type: "button", onclick: () => onSort?.(sort) }, text) : text || el("span.hidden-text", "Actions")))));
  const node = el(`table.grid ${kind} ${choices || tools.length ? "under-bar" : ""}`, { "aria-label": label }, head, body);
  const keys = () => [...body.children].map((child) => child.dataset.key);

  /** How many are chosen, and of how many. */
  const sizes = () => `${chosen.size} of ${rows.size}`;
  /** Shows what is chosen. */
  function told() {
    if (!choices) return;
    const was = bar.classList.contains("sel"), is = chosen.size > 0;
    toldSizes = sizes();
    all.checked = is && chosen.size === rows.size;
    all.indeterminate = is && !all.checked;
    for (const element of [bar, document.body]) element.classList.toggle("sel", is);
    // What is typed into a tool stays as long as the tools do.
    if (is) put(bar, ...choices(chosen), button("×", clear, "square quiet", { "aria-label": "Choose none" }));
    else if (was) put(bar, ...tools);
  }

  /** @param {string} key @param {boolean} on */
  function pick(key, on) {
    const row = rows.get(key);
    if (!row?.box) return;
    if (on) chosen.add(key); else chosen.delete(key);
    row.box.checked = on;
    row.node.classList.toggle("picked", on);
  }

  /** Chooses a row, or all from the last one on. @param {string} key @param {boolean} on @param {boolean} wide */
  function choose(key, on, wide) {
    const order = keys();
    const [from, to] = [wide && anchor ? order.indexOf(anchor) : order.indexOf(key), order.indexOf(key)].sort((a, b) => a - b);
    for (const other of order.slice(Math.max(0, from), to + 1)) pick(other, on);
    anchor = key;
    told();
  }

  function clear() {
    for (const key of [...chosen]) pick(key, false);
    told();
  }

  /** @param {string} key @param {any} row */
  function make(key, row) {
    const cells = columns.map(([classes], at) => ({ mark: "", node: el(at ? "td" : "th", { class: classes, scope: at ? null : "row" }) }));
    const own = !row.all && box(`Choose ${key}`, (event) => choose(key, own.checked, event.shiftKey));
    const made = { row, cells, box: own, node: el("tr", { "data-key": key, onclick: (/** @type {any} */ event) => {
      move(key, false);
      if (open && !event.target.closest("a, button, input") && !String(getSelection())) open(made.row);
    } }, pickCell(own), cells.map((cell) => cell.node)) };
    rows.set(key, made);
    return made;
  }

  /** @param {any} row @param {Cell[]} cells */
  function write(row, cells) {
    for (const [at, [classes, , cell, { mark: by, tone } = {}]] of columns.entries()) {
      const content = () => [typeof cell === "string" ? value(cell, row[cell]) : cell(row)].flat();
      const parts = by ? [] : content(), { node, mark: was } = cells[at];
      const text = by ? by(row) : parts.map((part) => part?.textContent ?? part).join("");
      const kind = text === "0" || text === "–" ? "z" : tone?.(row) || "", mark = cells[at].mark = `${kind}\0${text}`;
      if (mark === was) continue;
      node.className = `${classes} ${kind}`;
      put(node, ...by ? content() : parts);
    }
  }

  /** Shows these rows. In place: those that are there keep their order, and new ones are left out. @param {any[]} list @param {boolean} [inPlace] @returns {number} how many were left out */
  function set(list, inPlace) {
    let left = 0;
    const order = /** @type {Map<string, any>} */ (new Map());
    for (const row of list) {
      const key = String(row.key ?? row.id ?? row.name), known = rows.get(key);
      if (!known && inPlace) { left++; continue; }
      const entry = known ?? make(key, row);
      entry.row = row;
      write(row, entry.cells);
      order.set(key, entry.node);
    }
    for (const [key, entry] of rows) {
      entry.node.classList.toggle("gone-row", !order.has(key));
      if (order.has(key) || inPlace) continue;
      entry.node.remove();
      rows.delete(key);
      chosen.delete(key);
    }
    if (!inPlace) {
      const had = body.contains(document.activeElement) && document.activeElement;
      for (const [at, child] of [...order.values()].entries()) if (body.children[at] !== child) body.insertBefore(child, body.children[at] ?? null);
      if (had) had.focus({ preventScroll: true });
    }
    node.hidden = rows.size === 0;
    if (toldSizes !== sizes()) told();
    return left;
  }

  /** @param {string} key @param {boolean} [scroll] */
  function move(key, scroll = true) {
    rows.get(cursor)?.node.classList.remove("cursor");
    cursor = key;
    const row = rows.get(key)?.node;
    row?.classList.add("cursor");
    if (scroll) row?.scrollIntoView({ block: "nearest" });
  }

  const found = {
    node, bar, set, chosen, clear, told,
    /** Moves the cursor down or up. @param {number} by */
    step(by) {
      const order = keys(), at = order.indexOf(cursor);
      const next = order[Math.min(order.length - 1, Math.max(0, at < 0 ? 0 : at + by))];
      if (next !== undefined) move(next);
    },
    /** Opens the row of the cursor. */
    open: () => rows.has(cursor) && open?.(rows.get(cursor)?.row),
    /** Chooses the row of the cursor, or all up to it. @param {boolean} wide */
    toggle: (wide) => choose(cursor, wide || !chosen.has(cursor), wide),
    size: () => rows.size,
    /** The figures of all rows, in the head of the table. @param {any} row */
    sum(row) {
      const cells = columns.map(([classes]) => ({ mark: "", node: el("td", { class: classes }) }));
      write(row, cells);
      head.querySelector(".sum")?.remove();
      head.append(el("tr.sum", pickCell(""), cells.map((cell) => cell.node)));
    },
  };
  if (open || choices) current = found;
  return found;
}
