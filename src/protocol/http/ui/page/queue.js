// One queue: its figures, and its jobs by state.

import { call, get, may, post, queuePath, url } from "./api.js";
import { lines, thin } from "./chart.js";
import { plan } from "./act.js";
import { attempt, confirm, dialog, menu } from "./dialog.js";
import { button, buttonLink, capital, changing, el, facts, input, link, mark, plain, put, queueName, say, section, shown, tag } from "./dom.js";
import { preview, sizeOf } from "./exact.js";
import { age, bytes, count, many, moment, now, rate, since } from "./format.js";
import { isPaused } from "./main.js";
import { OLD, remarks } from "./overview.js";
import { pauseDialog, purgeDialog } from "./queues.js";
import { column, table, figure } from "./table.js";
import { encode, json } from "./text.js";

const TABS = ["ready", "scheduled", "blocked", "reserved", "buried", "completed"];
const PAGE_ROWS = 50;

/** The columns of jobs, as their state has them. @param {string} state */
export function jobColumns(state) {
  const time = (/** @type {string} */ label, /** @type {(row: any) => string} */ cell) => figure("w-2", label, cell);
  const all = [
    column("w-3 strong", "Id", (/** @type {any} */ row) => link(`#/job/${row.id}`, String(row.id))),
    state === "" && column("w-3", "State", (/** @type {any} */ row) => el("span.state", mark(row.state), capital(row.state))),
    figure("w-1b p2", "Priority", (row) => String(row.pri ?? "–")),
    state === "scheduled" ? time("Due in", (row) => age(Math.max(0, Date.parse(row.available_at) - now())))
      : state === "reserved" ? time("Lease ends", (row) => row.lease?.until ? age(Math.max(0, Date.parse(row.lease.until) - now())) : "–")
        : state === "buried" ? time("Error", (row) => row.last_error?.at ? age(since(row.last_error.at)) : "–")
          : time("Age", (row) => age(since(row.state === "ready" ? row.available_at : row.created_at))),
    figure("w-2 p3", "Attempts", (row) => row.max_attempts ? `${row.attempts} of ${row.max_attempts}` : String(row.attempts)),
    state === "reserved" && column("w-3 p2", "Worker", (/** @type {any} */ row) => shown(row.lease?.worker ?? row.lease?.protocol ?? "–")),
    state === "blocked" && column("w-4", "Blocked by", (/** @type {any} */ row) => shown(row.blocked_by ?? "–")),
    ["buried", "scheduled"].includes(state) && column("w-6 p3", "Last error", (/** @type {any} */ row) => row.last_error ? el("span", ...shown(`${row.last_error.error}: ${row.last_error.message ?? ""}`)) : "–"),
    figure("w-2 p4", "Size", (row) => bytes(sizeOf(row))),
    column("mono grow soft", "Payload", (/** @type {any} */ row) => preview(row)),
  ];
  return /** @type {import("./table.js").Column<any>[]} */ (all.filter(Boolean));
}

/** @param {string[]} rest @param {URLSearchParams} query @param {{reopen: () => void}} context */
export async function openQueue(rest, query, { reopen }) {
  const name = rest.join("/"), path = queuePath(name);
  let queue = await get(path);
  const counts = () => queue.counts;
  const first = query.get("state") ?? TABS.find((state) => counts()[state] > 0 && state !== "completed") ?? "ready";
  const state = TABS.includes(first) ? first : "ready";
  const [manages, peeks] = [may("manage", name), may("peek", name)];
  const here = `#/queue/${encode(name)}`;
  const tags = el("span.attention"), place = el("div"), plans = el("div");
  const figures = ["Ready", "Scheduled", "Reserved", "Buried", "Put and done", "Failed"].map((title, at) => ({ title, shape: at < 4 ? title.toLowerCase() : "", number: el("dd.num"), note: el("dd.note") }));
  const tabs = TABS.map((one) => ({ one, n: el("span.n"), node: link(`${here}?state=${one}`, one === state ? { "aria-current": "page" } : {}, mark(one), capital(one), " ") }));
  for (const tab of tabs) tab.node.append(tab.n);
  const flow = el("div"), backlog = el("div"), bar = el(".bar"), foot = el(".foot-line");
  const act = (/** @type {string} */ refusal, /** @type {() => Promise<any>} */ what) => attempt(place, refusal, async () => { await what(); await both(); });

  function figuresOf() {
    const values = [count(counts().ready), count(counts().scheduled), count(counts().reserved), count(counts().buried), `${rate(queue.rates.put)} / ${rate(queue.rates.completed)}`, rate(queue.rates.failed)];
    const taken = queue.rates.reserved;
    const notes = [queue.oldest_ready_ms === null ? "nothing waits" : `oldest ${age(queue.oldest_ready_ms)}`, "delayed, or to be retried", many(queue.waiting_consumers, "waiting consumer"), "out of attempts", "a second, over the last minute", taken ? `a second, ${Math.min(100, queue.rates.failed / taken * 100).toFixed(0)} % of those taken` : "a second"];
    for (const [at, { number, note }] of figures.entries()) {
      say(number, values[at]);
      say(note, notes[at]);
    }
    figures[0].note.className = (queue.oldest_ready_ms ?? 0) > OLD ? "note warn" : "note";
    figures[3].note.className = counts().buried ? "note bad" : "note";
    const words = json([remarks(queue), queue.index]);
    if (tags.dataset.words !== words) {
      tags.dataset.words = words;
      put(tags, ...remarks(queue).map(([kind, shape, text]) => tag(kind, shape, text)), queue.index && tag("", "", "index on"));
    }
    for (const tab of tabs) say(tab.n, count(counts()[tab.one]));
  }

  async function charts() {
    const { series, step_ms: each, until } = await get(`${path}/history`, { step: "1m" });
    const per = (/** @type {number[]} */ values) => thin(values.slice(0, -1).map((value) => value * 1000 / each), 60);
    const at = Date.parse(until), from = at - series.put.length * each;
    put(flow, lines({ label: "Jobs a second", height: 96, from, until: at, between: true, lines: [
      { name: "put", values: per(series.put), last: rate(queue.rates.put) }, { name: "done", values: per(series.completed), kind: "accent", last: rate(queue.rates.completed) }] }));
    put(backlog, lines({ label: "Ready jobs", height: 96, from, until: at, area: true, format: (value) => count(Math.round(value)), lines: [{ name: "", values: series.ready, last: count(counts().ready) }] }));
  }

  const order = query.get("cursor") ?? "";
  /** @type {string | null} */
  let next = null;
  const grid = peeks ? table({ label: `${capital(state)} jobs of ${plain(name)}`, kind: "fixed under-bar jobs", columns: jobColumns(state), id: (row) => String(row.id),
    open: (row) => { location.hash = `#/job/${row.id}`; }, select: manages ? select : undefined }) : null;

  /** @param {boolean} [inPlace] */
  async function jobs(inPlace) {
    if (!grid) return;
    const answer = await get(`${path}/jobs`, { state, limit: PAGE_ROWS, cursor: order });
    next = answer.next_cursor;
    const left = grid.set(answer.items, inPlace);
    put(foot, el("span", answer.items.length ? `${many(answer.items.length)} on this page` : next ? "Nothing on this page; there is a next one" : `No job is ${state}.`),
      left > 0 && button(`${many(left)} more: show them`, () => jobs(), "quiet"), (order || next) && el("span.push"),
      order && buttonLink(`${here}?state=${state}`, "First page"), next && buttonLink(`${here}?state=${state}&cursor=${encode(next)}`, "Next page"));
  }
  async function both() {
    queue = await get(path);
    figuresOf();
    await Promise.all([jobs(), charts()]);
  }

  const verbs = state === "reserved" ? ["bury", "delete"] : state === "completed" ? ["delete"] : state === "buried" || state === "scheduled" ? ["kick", "move", "change", "delete"] : ["bury", "move", "change", "delete"];
  /** @param {any} where @param {string} what @param {string} [verb] */
  function begin(where, what, verb) {
    grid?.clear();
    put(plans, plan({ queue: name, where, what, verbs, verb, done: both, close: () => put(plans) }));
    plans.scrollIntoView({ block: "center" });
  }

  /** Whether the selection is all of the state, not only of the page. */
  let everything = false;
  /** @param {Set<string>} chosen */
  function select(chosen) {
    if (chosen.size < (grid?.size() ?? 0)) everything = false;
    const was = bar.classList.contains("sel");
    bar.classList.toggle("sel", chosen.size > 0);
    document.body.classList.toggle("has-sel", chosen.size > 0);
    // What is typed into a tool stays as long as the tools do.
    if (!chosen.size) return was && put(bar, ...tools);
    const total = counts()[state], isPage = chosen.size === grid?.size() && total > chosen.size;
    const what = everything ? `all ${many(total, `${state} job`)}` : `${many(chosen.size)} chosen`;
    const where = () => everything ? { state } : { ids: [...chosen].map(Number) };
    put(bar, el("span.count", capital(what)), isPage && button(everything ? "Only those on this page" : `All ${count(total)} ${state}`, () => { everything = !everything; select(chosen); }, "quiet link"), el("span.push"),
      ...verbs.map((verb) => changing(verb === "delete" ? "Delete…" : verb === "kick" ? "Kick…" : `${capital(verb)}…`, () => begin(where(), what, verb), verb === "delete" ? "grave" : "")),
      button("", () => grid?.clear(), { kind: "square quiet", icon: "close", "aria-label": "Choose none" }));
  }
  const tools = [peeks && link(`#/search?queue=${encode(name)}`, { class: "btn quiet" }, "Search in this queue"), el("span.push"),
    manages && verbs.length > 0 && changing(`All ${state}…`, () => begin({ state }, `all ${state} jobs`), "quiet"),
    peeks && link(url("export", { queue: name, state }), { class: "btn quiet", download: `${plain(name)}-${state}.ndjson` }, "Export")];
  put(bar, ...tools);

  const drop = () => confirm(`Delete the queue ${plan.name_(name)}?`, "All its jobs go with it, reserved ones too, and so do its pause and its index. Schedules stay.", "Delete the queue", async () => {
    await call("DELETE", path, { query: { force: true } });
    location.hash = "#/queues";
  }, { keep: "Keep it", typed: name });
  const purge = () => purgeDialog(queue, (what) => act("It was not purged.", what));
  const moveAll = () => {
    const to = input("mono full large", { "aria-label": "To which queue", placeholder: "queue" });
    dialog(`Move the ready and scheduled jobs of ${plan.name_(name)}`, [el("p", "They keep their ids, priorities and histories."), to], { verb: "Move them", act: () => act("They were not moved.", () => post(`${path}/move`, { to: to.value, states: ["ready", "scheduled"] })) });
  };
  const more = manages && menu("More actions", () => [{ text: queue.index ? "Switch the index off" : "Switch the index on", act: () => act("The index was not switched.", () => call(queue.index ? "DELETE" : "PUT", `${path}/index`)) },
    { text: "Move all…", act: moveAll }, { text: "Purge…", kind: "grave-text", act: purge }, { text: "Delete the queue…", kind: "grave-text", act: drop }]);
  const pauses = el("span");
  const showPause = () => put(pauses, manages && (queue.paused ? changing("Resume", () => act("It was not resumed.", () => post(`${path}/resume`)).then(showPause))
    : changing("Pause…", () => pauseDialog(plan.name_(name), (body) => act("It was not paused.", () => post(`${path}/pause`, body)).then(showPause)))));
  showPause();
  figuresOf();
  const node = el("div", el(".head", el("h1", link("#/queues", { class: "crumb" }, "Queues"), el("span.crumb-sep", "/"), ...queueName(name)), tags,
    el(".actions push", may("put", name) && buttonLink(`#/put?queue=${encode(name)}`, "Put"), pauses,
      manages && changing("Kick buried", () => act("They were not kicked.", () => post(`${path}/kick`))), more)), place,
  el("dl.figs small", { "aria-label": plain(name) }, ...figures.map(({ title, shape, number, note }) => el("div", el("dt", shape && mark(shape), title), number, note))),
  el(".three section", plainSection("In and out, jobs a second", flow), plainSection("Ready jobs", backlog),
    facts("Consumers", [["Waiting for a job", count(queue.waiting_consumers)], ["Reserved", count(counts().reserved)], ["Paused until", queue.paused ? moment(queue.paused_until) : "not paused"], ["Index", queue.index ? "on" : "off"]])),
  el("nav.tabs section", { "aria-label": "Jobs by state" }, ...tabs.map((tab) => tab.node)), bar, plans,
  grid?.node ?? el(".gone", el("h2.lead", "Payloads are hidden"), el("p.soft", "Your token may observe this queue, and not look into its jobs: that takes the right peek.")), foot);
  await Promise.all([jobs(), charts()]);
  let seconds = 0;
  return {
    title: name === "" ? "(empty name)" : name, node, queues: [name],
    frame(/** @type {string} */ event, /** @type {any} */ data) {
      if (isPaused()) return;
      if (event === "queue" && data.name === name && !data.missing) {
        const was = queue.paused;
        queue = data;
        figuresOf();
        if (was !== queue.paused) showPause();
        if (++seconds % 2 === 0 && !grid?.chosen.size) jobs(true).catch(() => {});
        if (seconds % 15 === 0) charts().catch(() => {});
      }
    },
    refresh: () => both().catch(reopen),
  };
}

/** @param {string} title @param {...any} content */
function plainSection(title, ...content) {
  const node = section(title, "", ...content);
  node.className = "";
  return node;
}


