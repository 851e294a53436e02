// Tables: cells change in place, rows keep their place until they are to be ordered anew, and the
// keyboard moves a cursor over them.

import { el, put } from "./dom.js";

/**
 * @template T
 * @typedef {{label: string, kind?: string, sort?: string, direction?: "ascending" | "descending", cell: (row: T) => any, mark?: (row: T) => string, tone?: (row: T) => string}} Column
 * `cell`: a text, a node, or several; `mark`: a text that changes when the cell does, if its own text
 * says too little or is dear to make; `tone`: the class of the cell, never a text of somebody.
 */

/** The table that the keys are for. @type {any} */
let current = null;

/** The table on this page, if there is one. */
export const currentTable = () => current?.node.isConnected ? current : null;

/**
 * @template T
 * @param {{label: string, columns: Column<T>[], id: (row: T) => string, open?: (row: T) => void, kind?: string, select?: (chosen: Set<string>) => void, sort?: string, onSort?: (sort: string) => void, sum?: boolean, empty?: string}} options
 */
export function table(options) {
  const { columns, id, select } = options;
  /** @type {Map<string, {node: HTMLTableRowElement, cells: {mark: string, node: HTMLElement}[], row: T, box?: HTMLInputElement}>} */
  const rows = new Map();
  /** @type {Set<string>} */
  const chosen = new Set();
  let cursor = "", anchor = "";
  const body = el("tbody");
  const all = el("input", { type: "checkbox", "aria-label": "All on this page", onchange: () => {
    for (const [key, { box }] of rows) if (box) pick(key, all.checked);
    told();
  } });
  const heads = columns.map((column) => el("th", { scope: "col", class: column.kind, "aria-sort": column.sort && column.sort === options.sort ? column.direction ?? "descending" : null },
    column.sort && options.onSort ? el("button.sort", { type: "button", onclick: () => options.onSort?.(column.sort ?? "") }, column.label) : column.label || el("span.hidden-text", "Actions")));
  const node = el(`table.grid ${options.kind ?? ""}`, { "aria-label": options.label },
    el("thead", el("tr", select && el("td.pick", all), ...heads)), body);

  /** How many are chosen, and of how many. */
  const sizes = () => `${chosen.size} of ${rows.size}`;
  let toldSizes = "";
  const told = () => {
    toldSizes = sizes();
    all.checked = rows.size > 0 && chosen.size === rows.size;
    all.indeterminate = chosen.size > 0 && chosen.size < rows.size;
    select?.(chosen);
  };

  /** @param {string} key @param {boolean} on */
  function pick(key, on) {
    const entry = rows.get(key);
    if (!entry?.box) return;
    if (on) chosen.add(key); else chosen.delete(key);
    entry.box.checked = on;
    entry.node.classList.toggle("picked", on);
  }

  /** Chooses all from the last one that was chosen. @param {string} key @param {boolean} on */
  function range(key, on) {
    const keys = [...body.children].map((child) => /** @type {any} */ (child).dataset.key);
    const [from, to] = [keys.indexOf(anchor), keys.indexOf(key)].sort((a, b) => a - b);
    for (const other of keys.slice(Math.max(0, from), to + 1)) pick(other, on);
  }

  /** @param {string} key */
  function make(key) {
    const cells = columns.map((column, at) => ({ mark: "", node: el(at === 0 ? "th" : "td", { class: column.kind, scope: at === 0 ? "row" : null }) }));
    const box = select && !key.startsWith("\0") ? el("input", { type: "checkbox", "aria-label": `Choose ${key}` }) : undefined;
    const row = el("tr", { "data-key": key }, select && el("td.pick", box), ...cells.map((cell) => cell.node));
    box?.addEventListener("click", (/** @type {MouseEvent} */ event) => {
      if (event.shiftKey && anchor) range(key, box.checked); else pick(key, box.checked);
      anchor = key;
      told();
    });
    row.addEventListener("click", (/** @type {MouseEvent} */ event) => {
      move(key, false);
      const target = /** @type {Element} */ (event.target);
      const entry = rows.get(key);
      if (entry && options.open && !target.closest("a, button, input, summary, details") && !getSelection()?.toString()) options.open(entry.row);
    });
    return { node: row, cells, row: /** @type {any} */ (null), box };
  }

  /** @param {T} row @param {{mark: string, node: HTMLElement}[]} cells */
  function write(row, cells) {
    for (const [at, column] of columns.entries()) {
      const cell = cells[at];
      const content = column.mark ? [] : [column.cell(row)].flat();
      const text = column.mark ? column.mark(row) : content.map((part) => part?.textContent ?? part).join("");
      const tone = column.tone?.(row) ?? "", mark = `${tone}\0${text}`;
      if (cell.mark === mark) continue;
      cell.mark = mark;
      cell.node.className = `${column.kind ?? ""} ${text === "0" || text === "–" ? "z" : tone}`;
      put(cell.node, column.mark ? column.cell(row) : content);
    }
  }

  /** Shows these rows. In place: those that are there keep their order, and new ones are left out. @param {T[]} list @param {boolean} [inPlace] @returns {number} how many were left out */
  function set(list, inPlace) {
    let left = 0;
    const seen = new Set();
    const order = [];
    for (const row of list) {
      const key = id(row);
      let entry = rows.get(key);
      if (!entry && inPlace) { left++; continue; }
      seen.add(key);
      if (!entry) rows.set(key, entry = /** @type {any} */ (make(key)));
      if (!entry) continue;
      entry.row = row;
      write(row, entry.cells);
      order.push(entry.node);
    }
    for (const [key, entry] of rows) {
      if (seen.has(key)) continue;
      if (inPlace) { entry.node.classList.add("gone-row"); continue; }
      entry.node.remove();
      rows.delete(key);
      chosen.delete(key);
    }
    if (!inPlace) {
      const had = body.contains(document.activeElement) ? document.activeElement : null;
      for (const [at, child] of order.entries()) if (body.children[at] !== child) body.insertBefore(child, body.children[at] ?? null);
      /** @type {any} */ (had)?.focus({ preventScroll: true });
    }
    node.hidden = rows.size === 0 && !options.sum;
    if (select && toldSizes !== sizes()) told();
    return left;
  }

  /** @param {string} key @param {boolean} [scroll] */
  function move(key, scroll = true) {
    rows.get(cursor)?.node.classList.remove("cursor");
    cursor = key;
    const entry = rows.get(key);
    entry?.node.classList.add("cursor");
    if (scroll) entry?.node.scrollIntoView({ block: "nearest" });
  }

  /** Moves the cursor down or up. @param {number} by */
  function step(by) {
    const keys = [...body.children].map((child) => /** @type {any} */ (child).dataset.key);
    const at = keys.indexOf(cursor);
    const next = keys[Math.min(keys.length - 1, Math.max(0, at < 0 ? 0 : at + by))];
    if (next !== undefined) move(next);
  }

  const found = {
    node, set, step, chosen,
    /** Opens the row of the cursor. */
    open() {
      const entry = rows.get(cursor);
      if (entry) options.open?.(entry.row);
    },
    /** Chooses the row of the cursor, or all up to it. @param {boolean} wide */
    toggle(wide) {
      const entry = rows.get(cursor);
      if (!entry?.box) return;
      if (wide && anchor) range(cursor, true); else pick(cursor, !chosen.has(cursor));
      anchor = cursor;
      told();
    },
    clear() {
      for (const key of [...chosen]) pick(key, false);
      told();
    },
    size: () => rows.size,
    /** The figures of all rows, in the head of the table. @param {any} row */
    sum(row) {
      const cells = columns.map(() => ({ mark: "", node: el("td") }));
      write(row, cells);
      for (const [at, cell] of cells.entries()) cell.node.className = columns[at].kind ?? "";
      node.querySelector(".sum")?.remove();
      node.tHead.append(el("tr.sum", select && el("td.pick"), ...cells.map((cell) => cell.node)));
    },
  };
  if (options.open || select) current = found;
  return found;
}

/** @template T @param {string} kind @param {string} label @param {(row: T) => any} cell @param {Partial<Column<T>>} [rest] @returns {Column<T>} */
export const column = (kind, label, cell, rest) => ({ kind, label, cell, ...rest });

/** A cell with a number. @template T @param {string} kind @param {string} label @param {(row: T) => string} cell @param {Partial<Column<T>>} [rest] @returns {Column<T>} */
export const figure = (kind, label, cell, rest) => column(`r ${kind}`, label, cell, rest);
