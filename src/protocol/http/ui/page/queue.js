// One queue: its figures, and its jobs by state.

import { call, request, may, parameters, post, queuePath, url } from "./api.js";
import { amount, lines, thin } from "./chart.js";
import { FOR_GOOD, plan } from "./act.js";
import { ask, attempt, menu } from "./dialog.js";
import { buttonLink, capital, changing, el, facts, figures, go, jobLink, link, mark, nothing, plain, put, queueHref, queueName, queueWords, say, section, state, tag } from "./dom.js";
import { preview, sizeOf } from "./exact.js";
import { age, apart, bytes, count, many, rate, share } from "./format.js";
import { list, page, removal } from "./list.js";
import { OLD, remarks } from "./overview.js";
import { pausing, queueEntries } from "./queues.js";
import { json } from "./text.js";

/** The states of jobs, and what can be done to all of a state. @type {Record<string, string[]>} */
const TABS = { ready: ["bury", "move", "change", "delete"], scheduled: ["kick", "move", "change", "delete"], blocked: ["bury", "move", "change", "delete"],
  reserved: ["bury", "delete"], buried: ["kick", "move", "change", "delete"], completed: ["delete"] };

/** The time that matters in a state. @type {Record<string, [string, (job: any) => string]>} */
const TIMES = { scheduled: ["Due in", (job) => job.available_at], reserved: ["Lease ends", (job) => job.lease?.until], buried: ["Error", (job) => job.last_error?.at] };

/** @typedef {import("./table.js").Column} Column */

/** The columns of jobs, as their state has them. @param {string} kind a state, or nothing for all @returns {(Column | false)[]} */
export function jobColumns(kind) {
  const [words, time] = TIMES[kind] ?? ["Age", (/** @type {any} */ job) => job.state === "ready" ? job.available_at : job.created_at];
  return [
    ["w-3 strong", "Id", (job) => jobLink(job.id)],
    kind === "" && ["w-3", "State", (job) => state(job.state)],
    ["r w-1b p2", "Priority", "pri"],
    ["r w-2", words, (job) => apart(time(job))],
    ["r w-2 p3", "Attempts", attempts],
    kind === "reserved" && ["w-3 p2", "Worker", (job) => plain(job.lease?.worker ?? job.lease?.protocol ?? "–")],
    kind === "blocked" && ["w-4", "Blocked by", "blocked_by"],
    ["buried", "scheduled"].includes(kind) && ["w-6 p3", "Last error", (job) => job.last_error ? plain(`${job.last_error.error}: ${job.last_error.message ?? ""}`) : "–"],
    ["r w-2 p4", "Size", (job) => bytes(sizeOf(job))],
    ["mono grow soft", "Payload", preview],
  ];
}

/** @param {any} job */
export const attempts = (job) => job.max_attempts ? `${job.attempts} of ${job.max_attempts}` : count(job.attempts);

/** The charts of a history: what went in and out, and what is ready. @param {any} answer @param {any} now the figures as they are now @param {boolean} [wide] */
export function flowCharts({ series, step_ms: each, until }, now, wide) {
  const at = Date.parse(until), span = { from: at - series.put.length * each, until: at, height: 96 };
  // The last step is not over: it says less than it will.
  const per = (/** @type {number[]} */ values) => thin(values.slice(0, -1).map((value) => value * 1000 / each), 180);
  const flows = [per(series.put), per(series.completed)];
  return { flows, span, flow: lines({ ...span, height: wide ? 168 : 96, label: "Jobs a second", lines: [
    { name: "put", values: flows[0], last: rate(now.rates.put) }, { name: "done", values: flows[1], kind: "accent", last: rate(now.rates.completed) }] }),
  ready: lines({ ...span, label: "Ready jobs", format: amount, lines: [{ name: "", values: thin(series.ready, 180), last: count(now.counts.ready) }] }) };
}

/** @param {string[]} rest @param {URLSearchParams} query @param {{reopen: () => void}} context */
export async function openQueue(rest, query, { reopen }) {
  const name = rest.join("/"), path = queuePath(name);
  let queue = await request(path);
  const wanted = query.get("state") ?? Object.keys(TABS).find((state) => queue.counts[state] > 0 && state !== "completed") ?? "";
  const state = Object.hasOwn(TABS, wanted) ? wanted : "ready", verbs = TABS[state], here = queueHref(name), cursor = query.get("cursor");
  const [manages, peeks] = [may("manage", name), may("peek", name)];
  const tags = el("span.attention"), plans = el("div"), pauses = el("span"), flow = el("div"), backlog = el("div"), aside = el("div");
  const tabs = Object.keys(TABS).map((one) => ({ one, n: el("span.n") }));
  const row = figures("small", plain(name), [...["ready", "scheduled", "reserved", "buried"].map((one) => /** @type {[string, string]} */ ([one, capital(one)])), ["", "Put /s, done /s"], ["", "Failed /s"]]);
  const act = (/** @type {() => any} */ what) => attempt(async () => { await what(); await both(); });
  /** @type {boolean | undefined} */
  let wasPaused;

  function show() {
    const { counts, rates, oldest_ready_ms: oldest } = queue;
    row.say(0, count(counts.ready), oldest === null ? "nothing waits" : `oldest ${age(oldest)}`, oldest > OLD ? "warn" : "");
    row.say(1, count(counts.scheduled), "");
    row.say(2, count(counts.reserved), many(queue.waiting_consumers, "waiting consumer"));
    row.say(3, count(counts.buried), "out of attempts", counts.buried && "bad");
    row.say(4, `${rate(rates.put)} / ${rate(rates.completed)}`, "over the last minute");
    row.say(5, rate(rates.failed), rates.reserved ? `${share(Math.min(1, rates.failed / rates.reserved))} of those taken` : "");
    const known = json(remarks(queue));
    if (tags.dataset.known !== known) {
      tags.dataset.known = known;
      put(tags, remarks(queue).map((one) => tag(...one)));
    }
    if (wasPaused !== queue.paused) {
      wasPaused = queue.paused;
      put(pauses, manages && changing(...pausing(queue, act)));
    }
    for (const { one, n } of tabs) say(n, count(counts[one]));
    put(aside, facts("Queue", queue));
  }

  async function charts() {
    const drawn = flowCharts(await request(`${path}/history`, { step: "1m" }), queue);
    put(flow, drawn.flow);
    put(backlog, drawn.ready);
  }

  /** Whether the selection is all of the state, not only of the page. */
  let everything = false;
  /** What can be done with the jobs that are chosen. @param {Set<string>} chosen */
  function choices(chosen) {
    const total = queue.counts[state], isPage = chosen.size === jobs.grid.size() && total > chosen.size;
    everything &&= isPage;
    const what = everything ? `all ${many(total, `${state} job`)}` : `${many(chosen.size)} chosen`;
    return [el("span.count", capital(what)), isPage && changing(everything ? "Only this page" : `All ${count(total)} ${state}`, () => { everything = !everything; jobs.grid.told(); }, "quiet link"), el("span.push"),
      ...verbs.map((verb) => changing(`${capital(verb)}…`, () => begin(everything ? { state } : { ids: [...chosen].map(Number) }, what, verb), verb === "delete" ? "grave" : ""))];
  }
  /** @param {any} where @param {string} what @param {string} [verb] */
  function begin(where, what, verb) {
    jobs.grid.clear();
    put(plans, plan({ queue: name, where, what, verbs, verb, done: both, close: () => put(plans) }));
    plans.scrollIntoView({ block: "center" });
  }
  const jobs = list(`${path}/jobs`, { state, limit: 50, cursor }, { label: `${capital(state)} jobs of ${plain(name)}`, kind: "jobs", one: "job", none: `No job is ${state}.`, here: [here, { state }],
    columns: jobColumns(state), open: (job) => go(`#/job/${job.id}`), chosen: manages && choices,
    tools: [peeks && buttonLink(`#/search${parameters({ queue: name })}`, "Search in this queue"), el("span.push"),
      manages && changing(`All ${state}…`, () => begin({ state }, `all ${state} jobs`), "quiet"),
      peeks && buttonLink(url("export", { queue: name, state }), "Export", { download: `${plain(name)}-${state}.ndjson` })] });
  const load = async (/** @type {boolean} */ inPlace) => peeks && jobs.load(inPlace);
  async function both() {
    queue = await request(path);
    show();
    await Promise.all([load(false), charts()]);
  }

  /** @returns {import("./dialog.js").Entry[]} */
  const entries = () => [[`Switch the index ${queue.index ? "off" : "on"}`, () => act(() => call(queue.index ? "DELETE" : "PUT", `${path}/index`))],
    ["Move all…", () => ask(`Move the ready and scheduled jobs of ${queueWords(name)}`, "", [["to", "To which queue", "name"]], "Move them",
      (form) => act(() => post(`${path}/move`, { to: form.get("to"), states: ["ready", "scheduled"] })))], ...queueEntries(queue, act).slice(2),
    ["Delete the queue…", () => removal(`Delete the queue ${queueWords(name)}`, `Its jobs, pause and index go with it. ${FOR_GOOD}`, `${path}?force=true`, () => go("#/queues"), name), "grave"]];
  show();
  await Promise.all([load(false), charts()]);
  return page(name || "(empty name)", { heading: [link("#/queues", { class: "crumb" }, "Queues / "), ...queueName(name)], about: tags,
    actions: [may("put", name) && buttonLink(`#/put${parameters({ queue: name })}`, "Put"), pauses,
      manages && changing("Kick buried", () => act(() => post(`${path}/kick`))), manages && menu("More actions", entries)] }, {
    queues: [name], refresh: () => both().catch(reopen), every: { 2: () => !jobs.grid.chosen.size && load(true), 15: charts },
    frame(event, data) {
      if (event !== "queue" || data.name !== name || data.missing) return;
      queue = data;
      show();
    },
  }, row.node, el(".three section", section("In and out, jobs a second", "", flow), section("Ready jobs", "", backlog), aside),
  el("nav.tabs section", { "aria-label": "Jobs by state" }, tabs.map(({ one, n }) => link(`${here}?state=${one}`, { "aria-current": one === state && "page" }, mark(one), capital(one), n))),
  peeks ? [jobs.grid.bar, plans, jobs.grid.node, jobs.node[2]] : nothing("Payloads are hidden", "That takes the right peek."));
}
