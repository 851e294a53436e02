// All queues: figures in one table, by name or the first ones in another order.

import { FOR_GOOD } from "./act.js";
import { kept, may, parameters, post, queuePath } from "./api.js";
import { ask, confirm, dialog, menu } from "./dialog.js";
import { button, buttonLink, capital, changing, el, facts, go, mark, prefixOf, queueHref, queueLink, queueWords, save, say, segments, shown, tag, tick } from "./dom.js";
import { count, many, rate } from "./format.js";
import { acting, filter, list, page, sparks } from "./list.js";
import { isStuck, OLD, remarks } from "./overview.js";

const QUEUE_ROWS = 100;

/** Counts, and which windows are wide enough for them. */
const COUNTS = { ready: "", scheduled: "p2", blocked: "p3", reserved: "p2", buried: "p2", completed: "p4" };

/** Which queues are shown. @type {Record<string, (queue: any) => boolean>} */
const ONLY = { all: () => true, paused: (queue) => queue.paused, stuck: (queue) => isStuck(queue), buried: (queue) => queue.counts.buried > 0 };

/** What several queues are together. @param {string} name @param {any[]} queues */
function sums(name, queues) {
  const found = /** @type {any} */ ({ name, all: true, counts: {}, rates: {}, waiting_consumers: 0, oldest_ready_ms: null });
  for (const queue of queues) {
    for (const part of ["counts", "rates"]) for (const [key, value] of Object.entries(queue[part])) found[part][key] = (found[part][key] ?? 0) + value;
    found.waiting_consumers += queue.waiting_consumers;
    found.oldest_ready_ms = Math.max(found.oldest_ready_ms, queue.oldest_ready_ms) || null;
  }
  return found;
}

/** Queues in groups: several of one prefix stand behind what they are together. @param {any[]} queues */
function grouped(queues) {
  const groups = /** @type {Map<string, any[]>} */ (new Map());
  for (const queue of queues) groups.set(prefixOf(queue.name), [...groups.get(prefixOf(queue.name)) ?? [], queue]);
  return [...groups].flatMap(([prefix, some]) => prefix && some.length > 1 ? [{ ...sums(`${prefix}*`, some), key: `\0${prefix}` }, ...some] : some);
}

/** Saves queues as a table for spreadsheets. @param {any[]} queues */
function saveTable(queues) {
  const names = ["name", ...Object.keys(COUNTS), "oldest_ready_ms"];
  // A spreadsheet must not take a name for a formula.
  const cell = (/** @type {any} */ value) => typeof value === "number" ? value : `"${(value ?? "").replace(/^[=+\-@\t\r]/, "'$&").replace(/"/g, '""')}"`;
  const rows = queues.map((queue) => names.map((name) => cell(queue.counts[name] ?? queue[name])));
  save([names, ...rows].map((row) => `${row.join()}\n`).join(""), "queues.csv", "text/csv");
}

/** @param {string[]} _rest @param {URLSearchParams} query @param {{reopen: () => void}} context */
export async function openQueues(_rest, query, { reopen }) {
  const { match = "", sort = "name", cursor, only = "all", group } = Object.fromEntries(query);
  const hidden = kept("columns") ?? [];
  const to = (/** @type {Record<string, any>} */ change) => go(`#/queues${parameters({ match, sort, only, group, ...change })}`);
  const lines = sparks(), manages = may("manage");
  const tones = /** @type {Record<string, any>} */ ({ ready: (/** @type {any} */ queue) => isStuck(queue) && "strong", buried: (/** @type {any} */ queue) => queue.counts.buried >= 1000 && "bad strong" });
  /** @type {import("./table.js").Column[]} */
  const columns = [
    ["name grow", "Name", (queue) => queue.all ? el("b", shown(queue.name)) : [queueLink(queue.name), ...remarks(queue).map((one) => tag(...one))], { sort: "name", direction: "ascending" }],
    ...Object.entries(COUNTS).map(([key, kind]) => /** @type {import("./table.js").Column} */ ([`r n-${key} ${kind}`, capital(key), (queue) => count(queue.counts[key]), { sort: key === "ready" ? key : "", tone: tones[key] }])),
    ["r w-1 p4", "Waiting", "waiting_consumers"],
    ["r n-oldest", "Oldest ready", "oldest_ready_ms", { sort: "oldest", tone: (queue) => queue.oldest_ready_ms > OLD && "warn strong" }],
    ["r w-1 p3", "Put /s", (queue) => rate(queue.rates.put)], ["r w-1 p3", "Done /s", (queue) => rate(queue.rates.completed)], ["r w-1 p3", "Failed /s", (queue) => rate(queue.rates.failed)],
    lines.column,
    ["more p2", "", (queue) => !queue.all && menu(`Actions of ${queueWords(queue.name)}`, () => entries(queue.name)), { mark: () => "" }],
  ];
  const queues = list("queues", { match: match && !/[*?]/.test(match) ? `${match}*` : match, sort, limit: only === "all" ? QUEUE_ROWS : 1000, cursor }, {
    label: "Queues", kind: "queues", one: "queue", none: "No queue.",
    about: () => `; small lines: 0 to ${count(lines.top())}, logarithmic`, here: ["#/queues", { match, sort, only, group }],
    pick(items, next) {
      // How many there are is known where they all came.
      for (const [at, is] of Object.values(ONLY).entries()) say(numbers[at], next || cursor ? "" : count(items.filter(is).length));
      const some = items.filter(ONLY[only]).slice(0, 2 * QUEUE_ROWS);
      if (some.length > 1) queues.grid.sum(sums(`All ${some.length} on this page`, some));
      return some;
    },
    rows: (items) => group ? grouped(items) : items,
    columns: columns.filter(([, label]) => !hidden.includes(label)),
    sort, onSort: (by) => to({ sort: by }), open: (queue) => queue.all ? to({ match: queue.name, group: "" }) : go(queueHref(queue.name)),
    tools: [filter("Names of queues", "Names: mail.*, *.csv", match, (text) => to({ match: text })),
      segments("Which queues", Object.keys(ONLY).map((name) => [name, [name !== "all" && mark(name), capital(name), el("span.n")]]), only, (value) => to({ only: value })), el("span.push"),
      button("Group by prefix", () => to({ group: group ? "" : 1 }), "quiet p2", { "aria-pressed": String(Boolean(group)) }), button("Columns", choose, "quiet p2"),
      menu("Export what is shown", () => [["CSV", () => saveTable(queues.items), "reads"], ["JSON", () => save(JSON.stringify(queues.items, null, 1), "queues.json"), "reads"]], "↓ Export")],
    chosen: manages && ((chosen) => {
      const each = (/** @type {string} */ verb, /** @type {any} */ body) => act(async () => {
        for (const name of chosen) await post(`${queuePath(name)}/${verb}`, body);
        queues.grid.clear();
      });
      return [el("span.count", many(chosen.size, "queue")), el("span.push"), changing("Pause…", () => pauseDialog(many(chosen.size, "queue"), (body) => each("pause", body))),
        changing("Resume", () => each("resume", {})), changing("Kick buried", () => each("kick", {}))];
    }),
  });
  const act = acting(queues), numbers = [...queues.grid.bar.querySelectorAll(".n")];

  /** What can be done to a queue. @param {string} name @returns {import("./dialog.js").Entry[]} */
  function entries(name) {
    const queue = queues.items.find((one) => one.name === name);
    return [["Open", () => go(queueHref(name)), "reads"],
      may("put", name) && ["Put a job", () => go(`#/put${parameters({ queue: name })}`), "reads"],
      ...may("manage", name) ? queueEntries(queue, act) : []];
  }

  function choose() {
    const boxes = columns.slice(1).flatMap(([, name]) => name ? [{ name, ...tick(name, !hidden.includes(name)) }] : []);
    dialog("Columns", boxes.map(({ node }) => node), { verb: "Show these", act: () => {
      kept("columns", boxes.filter(({ box }) => !box.checked).map(({ name }) => name));
      reopen();
    } });
  }

  /** The small lines of the rows that are seen. */
  const draw = async () => { await lines.load(queues.items.slice(0, QUEUE_ROWS)); queues.show(true); };
  await queues.load();
  draw();
  return page("Queues", { about: "rates over the last minute", actions: [may("put") && buttonLink("#/put", "+ Put a job")] }, { every: { 2: queues.load, 60: draw }, refresh: queues.load }, queues.node);
}

/** What can be done to a queue, as entries of a menu. @param {any} queue @param {(act: () => any) => any} act @returns {import("./dialog.js").Entry[]} */
export function queueEntries(queue, act) {
  const path = queuePath(queue.name);
  return [pausing(queue, act), ["Kick buried", () => act(() => post(`${path}/kick`))], ["Purge…", () => {
    const states = ["ready", "scheduled", "blocked"];
    const counts = Object.fromEntries(states.map((state) => [state, queue.counts[state]]));
    confirm(`Purge ${many(states.reduce((sum, state) => sum + counts[state], 0))} of ${queueWords(queue.name)}?`, FOR_GOOD, "Purge them",
      () => act(() => post(`${path}/purge`, { states })), queue.name, facts("Jobs", counts));
  }, "grave"]];
}

/** How a queue is paused, or resumed. @param {any} queue @param {(act: () => any) => any} act @returns {[string, () => void]} */
export function pausing({ name, paused }, act) {
  const path = queuePath(name);
  return paused ? ["Resume", () => act(() => post(`${path}/resume`))]
    : ["Pause…", () => pauseDialog(queueWords(name), (body) => act(() => post(`${path}/pause`, body)))];
}

/** Asks for how long to pause. @param {string} what @param {(body: string) => any} act */
const pauseDialog = (what, act) => ask(`Pause ${what}?`, "Puts go on, nothing is handed out.",
  [["for_ms", "For how long", "time", "", "10m; nothing: until it is resumed"]], "Pause", (form) => act(`{${form.members()}}`));
