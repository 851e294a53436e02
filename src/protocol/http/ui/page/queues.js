// All queues: figures in one table, by name or the first ones in another order.

import { get, kept, may, post, queuePath, readyHistory } from "./api.js";
import { plan } from "./act.js";
import { shared, spark } from "./chart.js";
import { attempt, confirm, dialog, menu } from "./dialog.js";
import { button, buttonLink, changing, el, icon, input, mark, prefixOf, put, queueHref, queueLink, save, say, shown, state, tag } from "./dom.js";
import { age, count, duration, many, rate } from "./format.js";
import { isPaused } from "./main.js";
import { isStuck, OLD, remarks } from "./overview.js";
import { column, figure, table } from "./table.js";
import { encode } from "./text.js";

const QUEUE_ROWS = 100;

/** Columns that may be left out. */
const QUEUE_COLUMNS = ["scheduled", "blocked", "reserved", "buried", "completed", "waiting", "put", "done", "failed"];

/** @param {string[]} _rest @param {URLSearchParams} query @param {{reopen: () => void}} context */
export async function openQueues(_rest, query, { reopen }) {
  const match = query.get("match") ?? "", sort = query.get("sort") ?? "name", cursor = query.get("cursor") ?? "", only = query.get("only") ?? "", group = query.get("group") ?? "";
  const hidden = new Set(kept("columns") ?? []);
  const go = (/** @type {Record<string, string>} */ change) => {
    const next = new URLSearchParams({ match, sort, only, group, ...change });
    for (const [key, value] of [...next]) if (!value || (key === "sort" && value === "name")) next.delete(key);
    location.hash = `#/queues?${next}`;
  };
  /** @type {Map<string, number[]>} */
  const histories = new Map();
  const top = () => shared([...histories.values()].flat());
  const of = (/** @type {string} */ key, /** @type {string} */ label, /** @type {string} */ priority, /** @type {any} */ rest = {}) =>
    figure(`n-${key} ${priority}`, label, (/** @type {any} */ queue) => count(queue.counts[key]), rest);
  const flow = (/** @type {string} */ key, /** @type {string} */ label) => figure("w-1 p3", label, (/** @type {any} */ queue) => rate(queue.rates[key]));
  const columns = [
    column("name grow", "Name", (/** @type {any} */ queue) => queue.all ? el("b", ...shown(queue.name)) : [queueLink(queue.name), ...remarks(queue).map(([kind, shape, words]) => tag(kind, shape, words))], { sort: "name", direction: /** @type {const} */ ("ascending") }),
    of("ready", "Ready", "", { sort: "ready", tone: (/** @type {any} */ queue) => isStuck(queue) ? "strong" : "" }),
    ...[of("scheduled", "Scheduled", "p2"), of("blocked", "Blocked", "p3"), of("reserved", "Reserved", "p2"),
      of("buried", "Buried", "p2", { tone: (/** @type {any} */ queue) => queue.counts.buried >= 1000 ? "bad strong" : "" }), of("completed", "Completed", "p4"),
      figure("w-1 p4", "Waiting", (/** @type {any} */ queue) => count(queue.waiting_consumers))].filter((_, at) => !hidden.has(QUEUE_COLUMNS[at])),
    figure("n-oldest", "Oldest ready", (/** @type {any} */ queue) => age(queue.oldest_ready_ms), { sort: "oldest", tone: (queue) => (queue.oldest_ready_ms ?? 0) > OLD ? "warn strong" : "" }),
    ...[flow("put", "Put /s"), flow("completed", "Done /s"), flow("failed", "Failed /s")].filter((_, at) => !hidden.has(QUEUE_COLUMNS[6 + at])),
    column("spark p4", "Ready, 30 min", (/** @type {any} */ queue) => queue.all ? "" : histories.has(queue.name) ? spark(histories.get(queue.name) ?? [], top()) : "", { mark: (/** @type {any} */ queue) => queue.all ? "" : `${top()}:${histories.get(queue.name) ?? ""}` }),
    column("more p2", "", (/** @type {any} */ queue) => queue.all ? "" : menu(`Actions of ${plan.name_(queue.name)}`, () => rowMenu(queue.name)), { mark: () => "x" }),
  ];
  const bar = el(".bar"), foot = el(".foot-line"), place = el("div");
  const grid = table({ label: "Queues", kind: "fixed queues under-bar", columns, id: (queue) => queue.key ?? queue.name, sort,
    open: (queue) => queue.all ? go({ match: queue.name, group: "", cursor: "" }) : location.hash = queueHref(queue.name), onSort: (by) => go({ sort: by }),
    select: may("manage") ? (chosen) => select(chosen) : undefined });
  const filter = input("filter", { type: "search", "aria-label": "Names of queues", placeholder: "Names: mail.*, *.csv", value: match, onkeydown: (/** @type {KeyboardEvent} */ event) => { if (event.key === "Enter") go({ match: filter.value.trim(), cursor: "" }); } });
  const choices = [["", "All"], ["paused", "Paused"], ["stuck", "Stuck"], ["buried", "Buried"]];
  const is = (/** @type {any} */ queue, /** @type {string} */ what) => what === "paused" ? queue.paused : what === "stuck" ? isStuck(queue) : what === "buried" ? queue.counts.buried > 0 : true;
  const numbers = choices.map(() => el("span.n"));
  const tools = [filter, el(".seg", { role: "group", "aria-label": "Which queues" }, ...choices.map(([value, text], at) =>
    el("button", { type: "button", "aria-pressed": String(only === value), onclick: () => go({ only: value, cursor: "" }) }, value && mark(value), text, numbers[at]))), el("span.push"),
  button("Group by prefix", () => go({ group: group ? "" : "1" }), { kind: "quiet p2", "aria-pressed": String(group !== "") }), button("Columns", chooser, "quiet p2"),
  menu("Export what is shown", () => [{ text: "CSV", reads: true, act: exported }, { text: "JSON", reads: true, act: () => save(JSON.stringify(items, null, 1), "queues.json", "application/json") }], [icon("down"), "Export"])];
  put(bar, ...tools);
  /** @type {any[]} */
  let items = [];
  /** @type {string | null} */
  let next = null;

  /** @param {boolean} [inPlace] */
  async function load(inPlace) {
    const wanted = match && !/[*?]/.test(match) ? `${match}*` : match;
    const answer = await get("queues", { match: wanted, sort, limit: only ? 1000 : QUEUE_ROWS, cursor: sort === "name" ? cursor : "" });
    items = answer.items.filter((/** @type {any} */ queue) => is(queue, only)).slice(0, 2 * QUEUE_ROWS);
    next = answer.next_cursor;
    // How many there are is known where they all came.
    for (const [at, [value]] of choices.entries()) say(numbers[at], next || cursor ? "" : count(answer.items.filter((/** @type {any} */ queue) => is(queue, value)).length));
    const left = grid.set(rows(), inPlace);
    if (items.length > 1) grid.sum(sums(`All ${items.length} on this page`, items));
    put(foot, el("span", items.length ? `${many(items.length, "queue")}; the small lines share a scale from 0 to ${count(top())}, logarithmic` : match || only ? "No queue is like that." : "There is no queue yet."),
      left > 0 && button(`${many(left, "queue")} more: show them`, () => load(), "quiet"),
      (cursor || next) && el("span.push"), cursor && buttonLink("#/queues", "First page"), next && sort === "name" && button("Next page", () => go({ cursor: next ?? "" })));
  }

  /** What several queues are together. @param {string} name @param {any[]} list */
  function sums(name, list) {
    const found = /** @type {any} */ ({ name, all: true, counts: {}, rates: {}, waiting_consumers: 0, oldest_ready_ms: null });
    for (const queue of list) {
      for (const part of ["counts", "rates"]) for (const [key, value] of Object.entries(queue[part])) found[part][key] = (found[part][key] ?? 0) + value;
      found.waiting_consumers += queue.waiting_consumers;
      found.oldest_ready_ms = Math.max(found.oldest_ready_ms, queue.oldest_ready_ms ?? 0) || null;
    }
    return found;
  }

  /** The queues; if they are grouped, several of one prefix behind what they are together. */
  function rows() {
    if (!group) return items;
    const groups = /** @type {Map<string, any[]>} */ (new Map());
    for (const queue of items) groups.set(prefixOf(queue.name), [...groups.get(prefixOf(queue.name)) ?? [], queue]);
    return [...groups].flatMap(([prefix, list]) => prefix && list.length > 1 ? [{ ...sums(`${prefix}*`, list), key: `\0${prefix}` }, ...list] : list);
  }

  /** What can be done to a queue. @param {string} name */
  function rowMenu(name) {
    const path = queuePath(name), queue = items.find((one) => one.name === name);
    const act = (/** @type {string} */ title, /** @type {() => Promise<any>} */ what) => attempt(place, title, async () => { await what(); await load(true); });
    return [{ text: "Open", reads: true, act: () => { location.hash = queueHref(name); } },
      may("put", name) && { text: "Put a job", reads: true, act: () => { location.hash = `#/put?queue=${encode(name)}`; } },
      ...may("manage", name) ? [queue.paused ? { text: "Resume", act: () => act("It was not resumed.", () => post(`${path}/resume`)) }
        : { text: "Pause…", act: () => pauseDialog(plan.name_(name), (body) => act("It was not paused.", () => post(`${path}/pause`, body))) },
      { text: "Kick buried", act: () => act("They were not kicked.", () => post(`${path}/kick`)) },
      { text: "Purge…", kind: "grave-text", act: () => purgeDialog(queue, (what) => act("It was not purged.", what)) }] : []];
  }

  /** The small lines of the rows that are seen. */
  async function draw() {
    if (innerWidth < 1280) return;
    await Promise.all(items.slice(0, QUEUE_ROWS).map(async (queue) => {
      const history = await readyHistory(queue.name).catch(() => null);
      if (history) histories.set(queue.name, history);
    }));
    grid.set(rows(), true);
  }

  /** @param {Set<string>} chosen */
  function select(chosen) {
    const was = bar.classList.contains("sel");
    bar.classList.toggle("sel", chosen.size > 0);
    document.body.classList.toggle("has-sel", chosen.size > 0);
    // What is typed into a tool stays as long as the tools do.
    if (!chosen.size) return was && put(bar, ...tools);
    const each = (/** @type {string} */ title, /** @type {(name: string) => Promise<any>} */ act) => attempt(place, title, async () => {
      for (const name of [...chosen]) await act(name);
      grid.clear();
      await load(true);
    });
    put(bar, el("span.count", many(chosen.size, "queue")), el("span.push"),
      changing("Pause…", () => pauseDialog(many(chosen.size, "queue"), (body) => each("Not all were paused.", (name) => post(`${queuePath(name)}/pause`, body)))),
      changing("Resume", () => each("Not all were resumed.", (name) => post(`${queuePath(name)}/resume`))),
      changing("Kick buried", () => each("Not all were kicked.", (name) => post(`${queuePath(name)}/kick`))),
      button("", () => grid.clear(), { kind: "square quiet", icon: "close", "aria-label": "Choose none" }));
  }

  function chooser() {
    const boxes = QUEUE_COLUMNS.map((name) => {
      const box = el("input", { type: "checkbox", id: `c-${name}` });
      box.checked = !hidden.has(name);
      return { name, box };
    });
    dialog("Columns", [el(".checks", ...boxes.map(({ name, box }) => el("label", { for: box.id }, box, ` ${name}`)))], { verb: "Show these", act: () => {
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
  const node = el("div", el(".head", el("h1", "Queues"), el("p.meta", sort === "name" ? "rates over the last minute" : `the first by ${sort === "ready" ? "ready jobs" : "age of the oldest ready job"}`),
    el(".actions push", may("put") && buttonLink("#/put", icon("plus"), "Put a job"))), place, bar, grid.node, foot);
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

/** Asks before jobs of a queue are deleted. @param {any} queue @param {(what: () => Promise<any>) => any} act */
export function purgeDialog({ name, counts }, act) {
  const states = ["ready", "scheduled", "blocked"];
  confirm(`Purge ${many(states.reduce((sum, one) => sum + counts[one], 0))} of ${plan.name_(name)}?`, "They are deleted at once and cannot be brought back. Reserved jobs stay with their workers; buried ones are not touched.", "Purge them",
    () => act(() => post(`${queuePath(name)}/purge`, { states })),
    { typed: name, rows: [el("dl.kv", ...states.map((one) => el("div", el("dt", state(one)), el("dd", count(counts[one])))))] });
}

/** Asks for how long to pause. @param {string} what @param {(body: {for_ms?: number}) => any} act */
export function pauseDialog(what, act) {
  const time = input("full large", { "aria-label": "For how long", placeholder: "10m; nothing: until it is resumed" });
  dialog(`Pause ${what}?`, [el("p", "Puts go on, nothing is handed out. It survives a restart."), el(".field", el("span.label", "For how long"), time)], { verb: "Pause", act: () => {
    const ms = duration(time.value);
    if (time.value.trim() && isNaN(ms)) throw new Error("Write a time such as 90s, 10m or 2h.");
    return act(time.value.trim() ? { for_ms: ms } : {});
  } });
}
