// Search by what is in the jobs of a queue, and act on all that match.

import { call, get, kept, may, queuePath } from "./api.js";
import { plan } from "./act.js";
import { attempt, notice } from "./dialog.js";
import { button, changing, choice, copy, el, field, iconButton, input, link, plain, put, save } from "./dom.js";
import { wrong } from "./exact.js";
import { count } from "./format.js";
import { jobColumns } from "./queue.js";
import { table } from "./table.js";
import { encode, json } from "./text.js";

const COMPARISONS = ["contains", "=", "!=", "<", "<=", ">", ">=", "LIKE", "GLOB", "IS", "IS NOT"];
const MATCH_COLUMNS = ["payload", "id", "pri", "state", "modified", "events"];
const MATCH_ROWS = 100, PAGES_MAX = 100;

/** A place in a payload as the query has it. @param {string} path */
const expression = (path) => /^payload[.[]/.test(path)
  ? `json_extract(payload, '$${path.slice(7).replace(/'/g, "''")}')` : path;

/** What somebody has typed: JSON, or text. @param {string} text */
function value(text) {
  try {
    const found = JSON.parse(text);
    if (typeof found === "number" && !Number.isSafeInteger(found) && !/[.e]/i.test(text)) return { value: text };
    return typeof found === "object" && found !== null ? { value: found } : typeof found === "string" ? { value: found } : found;
  } catch {
    return { value: text };
  }
}

/** @param {{path: string, op: string, value: string}} term */
function compile({ path, op, value: text }) {
  if (op !== "contains") return [op, expression(path), value(text)];
  // A wildcard that was typed means itself.
  const escaped = text.replace(/'/g, "''");
  return [">", `instr(${/^payload$/.test(path) ? "payload" : `coalesce(${expression(path)}, '')`}, '${escaped}')`, 0];
}

/** The paths that payloads have. @param {string[]} payloads */
function paths(payloads) {
  const found = new Map();
  const walk = (/** @type {any} */ at, /** @type {string} */ path, /** @type {number} */ depth) => {
    if (found.size > 200 || depth > 4 || at === null || typeof at !== "object" || Array.isArray(at)) return;
    for (const [key, inner] of Object.entries(at)) {
      const next = /^[A-Za-z_]\w*$/.test(key) ? `${path}.${key}` : `${path}."${key.replace(/"/g, "")}"`;
      found.set(next, (found.get(next) ?? 0) + 1);
      walk(inner, next, depth + 1);
    }
  };
  for (const text of payloads) try { walk(JSON.parse(text), "payload", 0); } catch { /* It is no JSON. */ }
  return [...found.keys()];
}

/** @param {string[]} _rest @param {URLSearchParams} query */
export async function openSearch(_rest, query) {
  const list = await get("queues", { limit: 1000 });
  const names = list.items.filter((/** @type {any} */ queue) => queue.name !== "" && may("peek", queue.name)).sort((/** @type {any} */ a, /** @type {any} */ b) => Number(b.index) - Number(a.index));
  const chosen = query.get("queue") ?? names[0]?.name ?? "";
  if (!names.some((/** @type {any} */ queue) => queue.name === chosen) && chosen !== "") names.unshift({ name: chosen });
  const from = choice(names.map((/** @type {any} */ queue) => [queue.name, plain(queue.name) + (queue.index === false ? " (no index)" : "")]), { onchange: () => { location.hash = `#/search?queue=${encode(from.value)}`; } });
  from.value = chosen;
  const suggestions = el("datalist", { id: "paths" }, ...MATCH_COLUMNS.map((name) => el("option", { value: name })));
  const conds = el(".conds section-gap"), raw = el("textarea.input mono full", { rows: 5, spellcheck: "false" }), hint = el("p.hint", "Sent as it stands to the server.");
  const place = el("div"), result = el(".section");
  /** @type {{path: string, op: string, value: string}[]} */
  const terms = JSON.parse(query.get("terms") ?? "null") ?? [{ path: "payload", op: "contains", value: query.get("text") ?? "" }];

  function write() {
    raw.value = `[${terms.map((term) => json(compile(term))).join(",\n ")}]`;
    raw.setAttribute("aria-invalid", "false");
  }
  function draw() {
    put(conds, ...terms.map((term, at) => {
      const bind = (/** @type {any} */ node, /** @type {"path" | "op" | "value"} */ key) => {
        node.value = term[key];
        node.addEventListener("input", () => { term[key] = node.value; write(); });
        return node;
      };
      return el(".cond", el("span.and", at ? "and" : "where"), bind(input("mono", { list: "paths", "aria-label": `Place ${at + 1}` }), "path"),
        bind(choice(COMPARISONS.map((op) => [op, op]), { class: "mono", "aria-label": `Comparison ${at + 1}` }), "op"), bind(input("mono", { "aria-label": `Value ${at + 1}`, placeholder: "a word" }), "value"),
        iconButton("close", "Remove this condition", () => { if (terms.length > 1) { terms.splice(at, 1); draw(); write(); } }));
    }));
  }
  raw.addEventListener("input", () => {
    hint.textContent = wrong(raw.value) || "Sent as it stands to the server.";
    raw.setAttribute("aria-invalid", String(wrong(raw.value) !== ""));
  });

  const path = () => queuePath(from.value);
  const grid = table({ label: "Jobs that match", kind: "fixed jobs", columns: jobColumns(""), id: (row) => String(row.id), open: (row) => { location.hash = `#/job/${row.id}`; } });
  const plans = el("div");
  let runs = 0;

  /** @param {boolean} [counts] on to the end, to know how many match */
  async function search(counts) {
    if (wrong(raw.value)) return;
    const run = ++runs, began = performance.now(), terms_ = raw.value;
    const more = el(".foot-line"), title = el("span", { role: "status" }, "Searching…"), about = el("p");
    const tools = el(".actions push");
    grid.set([]);
    put(result, el(".section-head", el("h2.lead", title), about, tools), plans, grid.node, more);
    const answer = await attempt(place, "The search was refused.", async () => {
      const rows = [];
      let cursor = null, pages = 0, total = 0;
      do {
        /** @type {string} */
        const body = `{"query":${terms_},"limit":${counts ? 1000 : MATCH_ROWS}${cursor ? `,"cursor":${json(cursor)}` : ""}}`;
        /** @type {any} */
        const page = await call("POST", `${path()}/search`, { raw: body }).catch((error) => {
          if (error.status === 409) throw Object.assign(error, { noIndex: true });
          throw error;
        });
        if (run !== runs) return null;
        if (rows.length < MATCH_ROWS) rows.push(...page.items.slice(0, MATCH_ROWS - rows.length));
        total += page.items.length;
        cursor = page.next_cursor;
        pages++;
      } while (cursor && (counts || total === 0) && pages < PAGES_MAX);
      return { rows, total, more: cursor !== null };
    });
    if (run !== runs || !answer) {
      if (!answer) noIndex();
      return;
    }
    title.textContent = `${count(answer.total)}${answer.more ? "+" : ""} ${answer.total === 1 ? "job matches" : "jobs match"}`;
    about.textContent = `found in ${Math.round(performance.now() - began)} ms${answer.total > answer.rows.length ? `; the first ${answer.rows.length} are shown` : ""}`;
    grid.set(answer.rows);
    if (!answer.total) put(more, el("span", "Nothing matches. A value is compared as JSON: 5 is a number, \"5\" a text. Jobs that came before the index was switched on may still be on their way into it."));
    const act = () => put(plans, plan({ queue: from.value, where: { query: JSON.parse(terms_) }, what: `all jobs of ${plain(from.value)} that match`, done: () => search(), close: () => put(plans) }));
    const exported = async () => save(await call("POST", `${path()}/search`, { raw: `{"query":${terms_},"limit":${MATCH_ROWS}}`, exact: true }), "jobs.json", "application/json");
    put(tools, answer.total > 0 && button("Export", () => attempt(place, "Nothing was exported.", exported), { kind: "quiet", icon: "down", title: "What is shown, as JSON" }), answer.more && button("Count all", () => search(true), "quiet"), answer.total > 0 && may("manage", from.value) && changing(`Act on all ${answer.more ? "that match" : count(answer.total)}`, act));
  }

  /** The queue cannot be searched yet. */
  function noIndex() {
    const queue = names.find((/** @type {any} */ one) => one.name === from.value);
    if (queue?.index !== false) return put(result);
    for (const old of place.querySelectorAll(".notice")) old.remove();
    put(result, notice("", "stuck", "This queue has no index yet.", "It is searched by its index, which also keeps the history of each job. It takes some memory, and can be switched off again.", [may("manage", from.value) && changing("Switch it on", () => attempt(place, "The index was not switched on.", async () => {
      let state = await call("PUT", `${path()}/index`);
      for (let tries = 0; state.building && tries < 100; tries++) {
        await new Promise((done) => setTimeout(done, 100));
        state = await call("PUT", `${path()}/index`);
      }
      queue.index = true;
      await search();
    }), "go")].filter(Boolean)));
  }

  const address = () => `#/search?queue=${encode(from.value)}&terms=${encode(json(terms))}`;
  const begin = () => {
    put(plans);
    history.replaceState(null, "", address());
    kept("searches", [{ queue: from.value, terms }, ...(kept("searches") ?? []).filter((/** @type {any} */ one) => json(one.terms) !== json(terms))].slice(0, 20));
    return search();
  };
  const form = el("form", { "aria-label": "Conditions", onsubmit: (/** @type {Event} */ event) => { event.preventDefault(); begin(); } },
    el(".actions", el("label", { for: "from" }, "Jobs of"), from, el("span.soft", "where all of these hold:")), conds,
    el(".actions indent", button("Condition", () => { terms.push({ path: "", op: "=", value: "" }); draw(); write(); /** @type {any} */ (conds.lastElementChild)?.querySelector("input").focus(); }, { kind: "quiet", icon: "plus" }), el("span.push"), el("button.btn go", { type: "submit" }, "Search")));
  from.id = "from";
  form.addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => { if (event.key === "Enter" && event.ctrlKey) begin(); });
  raw.addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => { if (event.key === "Enter" && event.ctrlKey) search(); });
  draw();
  write();
  if (query.get("raw")) raw.value = query.get("raw");
  const copied = button("Copy link", async () => {
    await copy(location.href.replace(/#.*/, "") + address());
    copied.textContent = "Copied";
    setTimeout(() => { copied.textContent = "Copy link"; }, 1500);
  }, "quiet");
  const node = el("div", el(".head", el("h1", "Search"), el("p.meta", `queues with an index: ${names.filter((/** @type {any} */ queue) => queue.index).length} of ${names.length}`), el(".actions push", copied)), place,
    names.length ? el(".query", form, el("div", field("The same as a query", raw), hint), suggestions) : el(".gone", el("h2.lead", "There is nothing to search"), el("p.soft", "No queue has jobs that you may see. ", link("#/put", "Put a job"), ".")), result);
  if (names.length) {
    learn();
    if (query.has("terms") || query.has("raw")) search();
    else if (names.find((/** @type {any} */ queue) => queue.name === from.value)?.index === false) noIndex();
  }

  /** Learns paths from the first jobs. */
  async function learn() {
    const states = ["ready", "buried", "scheduled"];
    const samples = await Promise.all(states.map((state) => get(`${path()}/jobs`, { state, limit: 70 }).catch(() => ({ items: [] }))));
    for (const name of paths(samples.flatMap((sample) => sample.items.map((/** @type {any} */ job) => job.payload)))) suggestions.append(el("option", { value: name }));
  }
  return { title: "Search", node };
}


