// All queues: figures in one table, by name or the first ones in another order.

import { get, kept, may, post, queuePath, readyHistory } from "./api.js";
import { shared, spark } from "./chart.js";
import { attempt, dialog } from "./dialog.js";
import { button, el, icon, input, link, put, queueHref, queueLink, save, tag } from "./dom.js";
import { age, count, duration, many, rate } from "./format.js";
import { isPaused } from "./main.js";
import { isStuck, OLD, remarks } from "./overview.js";
import { figure, table } from "./table.js";

const QUEUE_ROWS = 100;

/** Columns that may be left out. */
const QUEUE_COLUMNS = ["scheduled", "blocked", "reserved", "buried", "completed", "waiting", "put", "done", "failed"];

/** @param {string[]} _rest @param {URLSearchParams} query @param {{reopen: () => void}} context */
export async function openQueues(_rest, query, { reopen }) {
  const match = query.get("match") ?? "", sort = query.get("sort") ?? "name", cursor = query.get("cursor") ?? "", only = query.get("only") ?? "";
  const hidden = new Set(kept("columns") ?? []);
  const go = (/** @type {Record<string, string>} */ change) => {
    const next = new URLSearchParams({ match, sort, only, ...change });
    for (const [key, value] of [...next]) if (!value || (key === "sort" && value === "name")) next.delete(key);
    location.hash = `#/queues?${next}`;
  };
  /** @type {Map<string, number[]>} */
  const histories = new Map();
  const top = () => shared([...histories.values()].flat());
  const of = (/** @type {string} */ key, /** @type {string} */ label, /** @type {string} */ priority, /** @type {any} */ rest = {}) =>
    figure(label, (/** @type {any} */ queue) => count(queue.counts[key]), { kind: `n-${key} ${priority}`, ...rest });
  const flow = (/** @type {string} */ key, /** @type {string} */ label) => figure(label, (/** @type {any} */ queue) => rate(queue.rates[key]), { kind: "w-1 p3" });
  const columns = [
    { label: "Name", kind: "name grow", sort: "name", direction: /** @type {const} */ ("ascending"), cell: (/** @type {any} */ queue) => queue.all ? queue.name : [queueLink(queue.name), ...remarks(queue).map(([kind, shape, words]) => tag(kind, shape, words))],
      mark: (/** @type {any} */ queue) => queue.name + (queue.all ? "" : remarks(queue).join()) },
    of("ready", "Ready", "", { sort: "ready", tone: (/** @type {any} */ queue) => isStuck(queue) ? "strong" : "" }),
    ...[of("scheduled", "Scheduled", "p2"), of("blocked", "Blocked", "p3"), of("reserved", "Reserved", "p2"),
      of("buried", "Buried", "p2", { tone: (/** @type {any} */ queue) => queue.counts.buried >= 1000 ? "bad strong" : "" }), of("completed", "Completed", "p4"),
      figure("Waiting", (/** @type {any} */ queue) => count(queue.waiting_consumers), { kind: "w-1 p4" })].filter((_, at) => !hidden.has(QUEUE_COLUMNS[at])),
    figure("Oldest ready", (/** @type {any} */ queue) => age(queue.oldest_ready_ms), { kind: "n-oldest", sort: "oldest", tone: (queue) => (queue.oldest_ready_ms ?? 0) > OLD ? "warn strong" : "" }),
    ...[flow("put", "Put /s"), flow("completed", "Done /s"), flow("failed", "Failed /s")].filter((_, at) => !hidden.has(QUEUE_COLUMNS[6 + at])),
    { label: "Ready, 30 min", kind: "spark p4", cell: (/** @type {any} */ queue) => queue.all ? "" : histories.has(queue.name) ? spark(histories.get(queue.name) ?? [], top()) : "",
      mark: (/** @type {any} */ queue) => queue.all ? "" : `${top()}:${histories.get(queue.name) ?? ""}` },
  ];
  const bar = el("div", { class: "bar" }), foot = el("div", { class: "foot-line" }), place = el("div");
  const grid = table({ label: "Queues", kind: "fixed queues under-bar", columns, id: (queue) => queue.name, sort,
    open: (queue) => { location.hash = queueHref(queue.name); }, onSort: (by) => go({ sort: by }),
    select: may("manage") ? (chosen) => select(chosen) : undefined });
  const filter = input({ type: "search", class: "filter", "aria-label": "Names of queues", placeholder: "Names: mail.*, *.csv", value: match,
    onkeydown: (/** @type {KeyboardEvent} */ event) => { if (event.key === "Enter") go({ match: filter.value.trim(), cursor: "" }); } });
  const choices = [["", "All"], ["paused", "Paused"], ["stuck", "Stuck"], ["buried", "Buried"]];
  const keep = (/** @type {any} */ queue) => only === "paused" ? queue.paused : only === "stuck" ? isStuck(queue) : only === "buried" ? queue.counts.buried > 0 : true;
  const tools = [filter, el("div", { class: "seg", role: "group", "aria-label": "Which queues" }, ...choices.map(([value, text]) =>
    el("button", { type: "button", "aria-pressed": String(only === value), onclick: () => go({ only: value, cursor: "" }) }, text))), el("span", { class: "push" }),
  button("Columns", chooser, { kind: "quiet p2" }), button("Export", exported, { kind: "quiet", icon: "down" })];
  put(bar, ...tools);
  /** @type {any[]} */
  let items = [];
  /** @type {string | null} */
  let next = null;

  /** @param {boolean} [inPlace] */
  async function load(inPlace) {
    const wanted = match && !/[*?]/.test(match) ? `${match}*` : match;
    const answer = await get("queues", { match: wanted, sort, limit: only ? 1000 : QUEUE_ROWS, cursor: sort === "name" ? cursor : "" });
    items = answer.items.filter(keep).slice(0, 2 * QUEUE_ROWS);
    next = answer.next_cursor;
    const left = grid.set(items, inPlace);
    const sums = { name: `All ${items.length} on this page`, all: true, paused: false, counts: sum((queue) => queue.counts), rates: sum((queue) => queue.rates), waiting_consumers: items.reduce((total, queue) => total + queue.waiting_consumers, 0), oldest_ready_ms: items.reduce((most, queue) => queue.oldest_ready_ms === null ? most : Math.max(most ?? 0, queue.oldest_ready_ms), /** @type {number | null} */ (null)) };
    if (items.length > 1) grid.sum(sums);
    put(foot, el("span", {}, items.length ? `${many(items.length, "queue")}; the small lines share a scale from 0 to ${count(top())}, logarithmic` : match || only ? "No queue is like that." : "There is no queue yet."),
      left > 0 && button(`${many(left, "queue")} more: show them`, () => load(), { kind: "quiet" }),
      (cursor || next) && el("span", { class: "push" }), cursor && link("#/queues", { class: "btn" }, "First page"), next && sort === "name" && button("Next page", () => go({ cursor: next ?? "" })));
  }
  const sum = (/** @type {(queue: any) => Record<string, number>} */ part) => {
    const total = /** @type {Record<string, number>} */ ({});
    for (const queue of items) for (const [key, value] of Object.entries(part(queue))) total[key] = (total[key] ?? 0) + value;
    return total;
  };

  /** The small lines of the rows that are seen. */
  async function draw() {
    if (innerWidth < 1280) return;
    await Promise.all(items.slice(0, QUEUE_ROWS).map(async (queue) => {
      const history = await readyHistory(queue.name).catch(() => null);
      if (history) histories.set(queue.name, history);
    }));
    grid.set(items, true);
  }

  /** @param {Set<string>} chosen */
  function select(chosen) {
    bar.classList.toggle("sel", chosen.size > 0);
    document.body.classList.toggle("has-sel", chosen.size > 0);
    if (!chosen.size) return put(bar, ...tools);
    const each = (/** @type {string} */ title, /** @type {(name: string) => Promise<any>} */ act) => attempt(place, title, async () => {
      for (const name of [...chosen]) await act(name);
      grid.clear();
      await load(true);
    });
    put(bar, el("span", { class: "count" }, many(chosen.size, "queue")), el("span", { class: "push" }),
      button("Pause…", () => pauseDialog(many(chosen.size, "queue"), (body) => each("Not all were paused.", (name) => post(`${queuePath(name)}/pause`, body))), { changes: true }),
      button("Resume", () => each("Not all were resumed.", (name) => post(`${queuePath(name)}/resume`)), { changes: true }),
      button("Kick buried", () => each("Not all were kicked.", (name) => post(`${queuePath(name)}/kick`)), { changes: true }),
      button("", () => grid.clear(), { kind: "square quiet", icon: "close", "aria-label": "Choose none" }));
  }

  function chooser() {
    const boxes = QUEUE_COLUMNS.map((name) => {
      const box = el("input", { type: "checkbox", id: `c-${name}` });
      box.checked = !hidden.has(name);
      return { name, box };
    });
    dialog("Columns", [el("div", { class: "checks" }, ...boxes.map(({ name, box }) => el("label", { for: box.id }, box, ` ${name}`)))], { verb: "Show these", act: () => {
      kept("columns", boxes.filter(({ box }) => !box.checked).map(({ name }) => name));
      reopen();
    } });
  }

  function exported() {
    const names = ["name", "ready", "scheduled", "blocked", "reserved", "buried", "completed", "oldest_ready_ms"];
    // A spreadsheet must not take a name for a formula.
    const cell = (/** @type {unknown} */ value) => `"${String(value ?? "").replace(/^[=+\-@\t\r]/, "'$&").replace(/"/g, '""')}"`;
    const rows = items.map((queue) => names.map((key) => typeof (queue.counts[key] ?? queue[key]) === "number" ? queue.counts[key] ?? queue[key] : cell(queue.counts[key] ?? queue[key])).join(","));
    save(`${names.join(",")}\n${rows.join("\n")}\n`, "queues.csv", "text/csv");
  }

  await load();
  draw();
  let seconds = 0;
  const node = el("div", {}, el("div", { class: "head" }, el("h1", {}, "Queues"), el("p", { class: "meta" }, sort === "name" ? "rates over the last minute" : `the first by ${sort === "ready" ? "ready jobs" : "age of the oldest ready job"}`),
    el("div", { class: "actions push" }, may("put") && link("#/put", { class: "btn" }, icon("plus"), "Put a job"))), place, bar, grid.node, foot);
  return {
    title: "Queues", node,
    frame(/** @type {string} */ event) {
      if (event !== "overview" || isPaused()) return;
      seconds++;
      if (seconds % 2 === 0) load(true).catch(() => {});
      if (seconds % 60 === 0) draw();
    },
    refresh: () => load(),
  };
}

/** Asks for how long to pause. @param {string} what @param {(body: {for_ms?: number}) => any} act */
export function pauseDialog(what, act) {
  const time = input({ class: "full large", "aria-label": "For how long", placeholder: "10m; nothing: until it is resumed" });
  dialog(`Pause ${what}?`, [el("p", {}, "Puts go on, nothing is handed out. It survives a restart."), el("div", { class: "field" }, el("span", { class: "label" }, "For how long"), time)], { verb: "Pause", act: () => {
    const ms = duration(time.value);
    if (time.value.trim() && Number.isNaN(ms)) throw new Error("Write a time such as 90s, 10m or 2h.");
    return act(time.value.trim() ? { for_ms: ms } : {});
  } });
}
