// Search by what is in the jobs of a queue, and act on all that match.

import { call, request, may, parameters, queuePath } from "./api.js";
import { plan, sleep } from "./act.js";
import { attempt, notice, notices } from "./dialog.js";
import { area, button, buttonLink, changing, choice, copyButton, el, field, go, iconButton, input, nothing, plain, put, save, submit } from "./dom.js";
import { count } from "./format.js";
import { page } from "./list.js";
import { jobColumns } from "./queue.js";
import { table } from "./table.js";
import { json } from "./text.js";

const COMPARISONS = ["contains", "=", "!=", "<", "<=", ">", ">=", "LIKE", "GLOB", "IS", "IS NOT"];
const MATCH_COLUMNS = ["payload", "id", "pri", "state", "modified", "events"];
const MATCH_ROWS = 100, PAGES_MAX = 100;

/** A place in a payload as the query has it. @param {string} path */
const expression = (path) => /^payload[.[]/.test(path) ? `json_extract(payload, '$${path.slice(7).replace(/'/g, "''")}')` : path;

/** What was typed: JSON, or text. @param {string} text */
function typed(text) {
  let found = text;
  try { found = JSON.parse(text); } catch { /* It is text. */ }
  // A number that JavaScript cannot hold is compared as it was typed.
  if (Number.isInteger(found) && !Number.isSafeInteger(found)) found = text;
  return typeof found === "string" || typeof found === "object" && found !== null ? { value: found } : found;
}

/** @param {{path: string, op: string, value: string}} term */
const compile = ({ path, op, value }) => op !== "contains" ? [op, expression(path), typed(value)]
  // A wildcard that was typed means itself.
  : [">", `instr(${path === "payload" ? path : `coalesce(${expression(path)}, '')`}, '${value.replace(/'/g, "''")}')`, 0];

/** Adds the paths that a value has. @param {Set<string>} found @param {any} at @param {string} path */
function addPaths(found, at, path) {
  if (found.size > 200 || path.length > 100 || at?.constructor !== Object) return;
  for (const [key, inner] of Object.entries(at)) {
    const next = `${path}.${/^[A-Za-z_]\w*$/.test(key) ? key : `"${key.replace(/"/g, "")}"`}`;
    found.add(next);
    addPaths(found, inner, next);
  }
}

/** @param {string[]} _rest @param {URLSearchParams} query */
export async function openSearch(_rest, query) {
  const { items } = await request("queues", { limit: 1000 });
  /** @type {any[]} */
  const queues = items.filter((/** @type {any} */ queue) => queue.name && may("peek", queue.name)).sort((/** @type {any} */ a, /** @type {any} */ b) => b.index - a.index);
  const chosen = query.get("queue") ?? queues[0]?.name;
  if (chosen && !queues.some((queue) => queue.name === chosen)) queues.unshift({ name: chosen });
  const from = choice(queues.map((queue) => [queue.name, plain(queue.name) + (queue.index === false ? " (no index)" : "")]), { id: "from", onchange: () => go(`#/search${parameters({ queue: from.value })}`) });
  from.value = chosen;
  const suggestions = el("datalist", { id: "paths" }), conds = el(".conds"), raw = area(5);
  const result = el(".section"), plans = el("div"), path = queuePath(chosen);
  /** @type {{path: string, op: string, value: string}[]} */
  const terms = JSON.parse(query.get("terms") ?? "null") ?? [{ path: "payload", op: "contains", value: query.get("text") ?? "" }];
  const grid = table({ label: "Jobs that match", kind: "jobs", columns: jobColumns(""), open: (job) => go(`#/job/${job.id}`) });
  let runs = 0;

  /** The conditions as a query. */
  const write = () => { raw.value = `[${terms.map((term) => json(compile(term))).join(",\n ")}]`; };
  function draw() {
    put(conds, terms.map((term, at) => {
      const bind = (/** @type {any} */ node, /** @type {"path" | "op" | "value"} */ key) => {
        node.value = term[key];
        node.oninput = () => { term[key] = node.value; write(); };
        return node;
      };
      const label = (/** @type {string} */ text) => ({ "aria-label": `${text} ${at + 1}` });
      return el(".cond", el("span.and", at ? "and" : "where"), bind(input("mono", { list: "paths", ...label("Place") }), "path"),
        bind(choice(COMPARISONS.map((op) => [op, op]), label("Comparison")), "op"), bind(input("mono", { placeholder: "a word", ...label("Value") }), "value"),
        iconButton("×", "Remove this condition", () => { if (terms.length > 1) terms.splice(at, 1); draw(); }));
    }));
    write();
  }

  /** One page of what matches. @param {number} limit @param {string | null} [cursor] @param {boolean} [exact] */
  const ask = (limit, cursor, exact) =>
    call("POST", `${path}/search`, { body: `{"query":${raw.value},"limit":${limit}${cursor ? `,"cursor":${json(cursor)}` : ""}}`, exact });

  /** @param {boolean} [counts] on to the end, to know how many match */
  async function search(counts) {
    const run = ++runs, began = performance.now(), asked = raw.value;
    const more = el(".foot-line"), title = el("span", { role: "status" }, "Searching…"), about = el("p"), tools = el(".actions push");
    grid.set([]);
    put(result, el(".section-head", el("h2.lead", title), about, tools), plans, grid.node, more);
    let total = 0, cursor = "", pages = 0;
    /** @type {any[]} */
    const rows = [];
    const isDone = await attempt(async () => {
      do {
        const answer = await ask(counts ? 1000 : MATCH_ROWS, cursor);
        if (run !== runs) return;
        rows.push(...answer.items.slice(0, MATCH_ROWS - rows.length));
        total += answer.items.length;
        cursor = answer.next_cursor;
      } while (cursor && (counts || !total) && ++pages < PAGES_MAX);
      return true;
    });
    if (run !== runs) return;
    if (!isDone) return noIndex();
    title.textContent = `${count(total)}${cursor ? "+" : ""} ${total === 1 ? "job matches" : "jobs match"}`;
    about.textContent = `found in ${Math.round(performance.now() - began)} ms${total > rows.length ? `; the first ${rows.length} are shown` : ""}`;
    grid.set(rows);
    if (!total) put(more, "Nothing matches: 5 is a number, \"5\" a text.");
    put(tools, total > 0 && button("↓ Export", () => attempt(async () => save(await ask(MATCH_ROWS, "", true), "jobs.json")), "quiet"),
      cursor && button("Count all", () => search(true), "quiet"),
      total > 0 && may("manage", chosen) && changing(`Act on all ${cursor ? "that match" : count(total)}`, () => put(plans,
        plan({ queue: chosen, where: { query: JSON.parse(asked) }, what: `all jobs of ${plain(chosen)} that match`, done: search, close: () => put(plans) }))));
  }

  /** The queue cannot be searched yet. */
  function noIndex() {
    const queue = queues.find((one) => one.name === chosen);
    put(result);
    if (queue?.index !== false) return;
    put(notices);
    put(result, notice("", "stuck", "This queue has no index yet.", "An index finds jobs and keeps their histories. It takes some memory.",
      [may("manage", chosen) && changing("Switch it on", () => attempt(async () => {
        for (let tries = 0; tries < 100 && (await call("PUT", `${path}/index`)).building; tries++) await sleep(100);
        queue.index = true;
        await search();
      }), "go")]));
  }

  const address = () => `#/search${parameters({ queue: chosen, terms: json(terms) })}`;
  const begin = (/** @type {Event} */ event) => {
    event.preventDefault();
    put(plans);
    history.replaceState(null, "", address());
    search();
  };
  draw();
  raw.value = query.get("raw") ?? raw.value;
  if (queues.length) {
    learn();
    if (query.has("terms") || query.has("raw")) search();
    else if (queues.find((queue) => queue.name === chosen)?.index === false) noIndex();
  }

  /** Learns paths from the first jobs. */
  async function learn() {
    const found = new Set(MATCH_COLUMNS);
    for (const state of ["ready", "buried", "scheduled"]) {
      const { items } = await request(`${path}/jobs`, { state, limit: 70 }).catch(() => ({ items: [] }));
      for (const { payload } of items) try { addPaths(found, JSON.parse(payload), "payload"); } catch { /* It is no JSON. */ }
    }
    put(suggestions, [...found].map((value) => el("option", { value })));
  }

  return page("Search", { actions: [copyButton("Copy link", "Copy link", () => location.href.replace(/#.*/, "") + address())] }, {},
  queues.length ? el(".query", el("form", { "aria-label": "Conditions", onsubmit: begin },
    el(".actions", el("label", { for: "from" }, "Jobs of"), from, el("span.soft", "where all of these hold:")), conds,
    el(".actions", button("+ Condition", () => { terms.push({ path: "", op: "=", value: "" }); draw(); conds.lastElementChild.querySelector("input").focus(); }, "quiet"), el("span.push"), submit("Search"))), field("The same as a query", raw), suggestions)
    : nothing("There is nothing to search", "No queue has jobs that you may see.", [buttonLink("#/put", "Put a job")]), result);
}
