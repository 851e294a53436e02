// The overview: what needs attention, totals, what goes in and out, how the server is.

import { get, readyHistory } from "./api.js";
import { lines, mini, net, shared, spark, thin } from "./chart.js";
import { capital, copyButton, el, facts, link, mark, plain, put, queueHref, queueLink, say, section, segments } from "./dom.js";
import { age, bytes, change, count, many, quantile, rate, share } from "./format.js";
import { isPaused, minuteAgo } from "./main.js";
import { column, figure, table } from "./table.js";

const STATES = ["scheduled", "blocked", "ready", "reserved", "buried", "completed"];
const WHAT = ["waiting for their time", "by constraints or others", "to be taken", "being worked on", "out of attempts", "kept for their results"];

/** Milliseconds after which a queue with ready jobs is old, or stuck if nothing is taken. */
export const OLD = 600_000;
const STUCK = 300_000;

/** Buried jobs from which on a queue needs attention. */
const MANY_BURIED = 1000;

/** @param {any} queue */
export const isStuck = (queue) => !queue.paused && (queue.oldest_ready_ms ?? 0) > STUCK && queue.rates.reserved === 0;

/** What is remarkable about a queue. @param {any} queue @returns {[string, string, string][]} kind, shape, words */
export function remarks(queue) {
  /** @type {[string, string, string][]} */
  const found = [];
  if (queue.counts.buried >= MANY_BURIED) found.push(["bad", "buried", `${count(queue.counts.buried)} buried`]);
  if (isStuck(queue)) found.push(["warn", "stuck", `stuck, ${age(queue.oldest_ready_ms)}`]);
  if (queue.paused) found.push(["warn", "paused", queue.paused_until ? `paused, ${age(Math.max(0, Date.parse(queue.paused_until) - Date.now()))} left` : "paused"]);
  return found;
}

/** @param {string[]} _rest @param {URLSearchParams} _query @param {{frames: any[], reopen: () => void}} context */
export async function openOverview(_rest, _query, { frames, reopen }) {
  const server = await get("server");
  if (server.jobs === 0 && server.totals.put === 0 && server.queues === 0) return empty(server, reopen);
  let step = "5s";
  const figures = STATES.map((state) => ({ state, number: el("dd.num"), note: el("dd.note") }));
  const attention = el("ul.attention", { "aria-label": "Needs attention" });
  const flow = el("div"), ready = el("div"), minis = el(".minis section"), aside = el("aside");
  /** @type {Map<string, number[]>} */
  const histories = new Map();
  const top = () => shared([...histories.values()].flat());
  const drawn = (/** @type {any} */ queue) => histories.has(queue.name) ? spark(histories.get(queue.name) ?? [], top()) : svgSpace();
  const sparkMark = (/** @type {any} */ queue) => `${top()}:${histories.get(queue.name) ?? ""}`;
  const common = [
    column("name grow", "Queue", (/** @type {any} */ queue) => queueLink(queue.name)),
    figure("w-1b", "Ready", (/** @type {any} */ queue) => count(queue.counts.ready)),
  ];
  const sparks = column("spark p4", "Ready, 30 min", drawn, { mark: sparkMark });
  const open = (/** @type {any} */ queue) => { location.hash = queueHref(queue.name); };
  const oldest = table({ label: "Queues that wait longest", kind: "fixed tight", id: (queue) => queue.name, open, columns: [...common,
    figure("w-2", "Oldest", (queue) => age(queue.oldest_ready_ms), { tone: (queue) => (queue.oldest_ready_ms ?? 0) > OLD ? "warn" : "" }), sparks] });
  const growing = table({ label: "Queues that grow fastest", kind: "fixed tight", id: (queue) => queue.name, open, columns: [...common,
    figure("w-2", "A minute", (queue) => change(queue.growth), { tone: (queue) => queue.growth > 60 ? "warn" : "" }), sparks] });

  async function queues() {
    const [old, full] = await Promise.all([get("queues", { sort: "oldest", limit: 50 }), get("queues", { sort: "ready", limit: 50 })]);
    const byName = new Map([...old.items, ...full.items].map((queue) => [queue.name, queue]));
    const all = [...byName.values()];
    for (const queue of all) queue.growth = Math.round((queue.rates.put - queue.rates.reserved) * 60);
    const first = old.items.filter((/** @type {any} */ queue) => queue.oldest_ready_ms !== null).slice(0, 10);
    const grown = all.filter((queue) => queue.growth > 0 || queue.counts.ready > 0).sort((a, b) => b.growth - a.growth || b.counts.ready - a.counts.ready).slice(0, 10);
    oldest.set(first);
    growing.set(grown);
    put(attention, ...all.flatMap((queue) => remarks(queue).map(([kind, shape, words]) =>
      el("li", link(queueHref(queue.name), { class: `tag ${kind}` }, mark(shape), `${plain(queue.name)}: ${words}`)))).slice(0, 6));
    const buried = all.reduce((most, queue) => queue.counts.buried > (most?.counts.buried ?? 0) ? queue : most, /** @type {any} */ (null));
    figures[4].note.className = buried ? "note bad" : "note";
    say(figures[4].note, buried ? `${count(buried.counts.buried)} in ${plain(buried.name)}` : WHAT[4]);
    await Promise.all([...first, ...grown].map(async (queue) => { histories.set(queue.name, await readyHistory(queue.name).catch(() => [])); }));
    oldest.set(first);
    growing.set(grown);
  }

  async function charts() {
    const { series, step_ms: each, until } = await get("server/history", { step });
    // The last step is not over: it says less than it will.
    const perSecond = (/** @type {number[]} */ values) => thin(values.slice(0, -1).map((value) => value * 1000 / each), 180);
    const puts = perSecond(series.put), done = perSecond(series.completed), at = Date.parse(until), from = at - series.put.length * each;
    const [inNow, outNow] = [server.rates.put, server.rates.completed].map(rate);
    put(flow, lines({ label: "Jobs a second", from, until: at, between: true, lines: [
      { name: "put", values: puts, last: inNow }, { name: "done", values: done, kind: "accent", last: outNow }] }),
    net(puts.map((value, place) => value - done[place]), change(server.rates.put - server.rates.completed)));
    const amounts = thin(series.ready, 180);
    put(ready, lines({ label: "Ready jobs", from, until: at, area: true, format: (value) => count(Math.round(value)), height: 96, lines: [{ name: "", values: amounts, last: count(series.ready[series.ready.length - 1]) }] }),
      waits());
  }

  /** How long jobs were ready before they were taken. */
  function waits() {
    const before = minuteAgo();
    const counts = server.ready_ms.counts.map((/** @type {number} */ number, /** @type {number} */ at) => number - (frames.length > 30 ? before.ready_ms.counts[at] : 0));
    const p50 = quantile({ ...server.ready_ms, counts }, undefined, 0.5), p99 = quantile({ ...server.ready_ms, counts }, undefined, 0.99);
    return el("p.hint wait-hint", `Jobs were ready for ${age(p50)} (median) and ${age(p99)} (99 %) before they were taken, ${frames.length > 30 ? "in the last minute" : "since the start"}.`);
  }

  function health() {
    const each = (/** @type {(frame: any, before: any) => number | null} */ value) =>
      thin(frames.map((frame, at) => value(frame, frames[Math.max(0, at - 30)]) ?? 0), 120);
    const last = frames[frames.length - 1];
    if (!last) return;
    const round = (/** @type {number[]} */ values, /** @type {number} */ least) => Math.max(least, shared(values));
    const add = (/** @type {string} */ name, /** @type {number[]} */ values, /** @type {(value: number) => string} */ text, /** @type {number} */ most, /** @type {string[]} */ [kind] = []) =>
      mini(name, values, text(values[values.length - 1] ?? 0), most, text(most), kind);
    const failed = each((frame) => frame.rates.failed);
    const answers = each((frame, before) => before === frame ? null : (quantile(frame.answered_ns, before.answered_ns, 0.99) ?? 0) / 1e6);
    const sync = each((frame, before) => before === frame || !frame.journal ? null : (quantile(frame.journal.synced_ns, before.journal?.synced_ns, 0.99) ?? 0) / 1e6);
    const memory = each((frame) => frame.memory.resident_bytes ?? frame.memory.jobs_bytes);
    const people = each((frame) => Object.values(frame.connections).reduce((/** @type {number} */ sum, /** @type {any} */ number) => sum + number, 0));
    put(minis, ...[add("Failed /s", failed, rate, round(failed, 1), failed[failed.length - 1] > 0 ? ["bad"] : []),
      add("Answer p99", answers, age, round(answers, 1)),
      last.journal ? add("Sync p99", sync, age, round(sync, 1)) : null,
      add("Loop busy", each((frame) => frame.loop.busy_millionths / 1e6), share, 1),
      add("Memory", memory, bytes, last.limits.max_memory ?? Math.max(...memory, 1) * 2),
      add("Connections", people, (value) => count(Math.round(value)), round(people, 10))].filter((part) => part !== null));
  }

  function figuresOf(/** @type {any} */ data) {
    for (const { state, number } of figures) say(number, count(data.counts[state]));
    const growth = (data.rates.put - data.rates.reserved) * 60;
    figures[2].note.className = growth > 60 ? "note warn" : "note";
    say(figures[2].note, `${change(growth)} a minute`);
    say(figures[3].note, many(data.waiting_consumers, "waiting consumer"));
    put(aside,
      facts("Server", [["Version", data.version], ["Up", age(data.uptime_ms)], ["Engine", data.journal ? "durable" : "memory only"], ["Longest pass", age(data.loop.longest_pass_ns / 1e6)],
        ["Memory", data.limits.max_memory ? `${bytes(data.memory.jobs_bytes)} of ${bytes(data.limits.max_memory)}` : bytes(data.memory.resident_bytes ?? data.memory.jobs_bytes)],
        ["Queues", count(data.queues)], data.draining ? ["Draining", el("span.warn", "no new jobs")] : ["Jobs", count(data.jobs)]]),
      data.journal && facts("Journal", [["Live", bytes(data.journal.live_bytes)], ["On disk", `${bytes(data.journal.total_bytes)}, ${many(data.journal.segments, "segment")}`],
        ["Longest sync", age(data.journal.sync_max_ns / 1e6)], ["Space", data.journal.full ? el("span.bad", "disk full") : "left"]]),
      facts("Connections", Object.entries(data.connections).filter(([, number]) => number).map(([name, number]) => [protocolName(name), count(/** @type {number} */ (number))])));
  }

  for (const [at, { note }] of figures.entries()) say(note, WHAT[at]);
  let seconds = 0;
  const reorder = () => Promise.all([queues(), charts()]).catch(() => {});
  const spans = segments("Span of the charts", [["5s", "1 hour"], ["1m", "24 hours"]], step, (value) => { step = value; charts().catch(() => {}); });
  const node = el("div", el(".head", el("h1", "Overview"), attention, el(".actions push", spans)),
    el("dl.figs", { "aria-label": "Jobs by state" }, ...figures.map(({ state, number, note }) => el("div", el("dt", mark(state), capital(state)), number, note))),
    el(".wide-aside section", el("div",
      el(".two", block("In and out, jobs a second", "amber where more comes in than is done", flow), block("Ready jobs", "", ready)),
      minis,
      el(".two section", block("Waiting longest", "by the age of the oldest ready job", oldest.node), block("Growing fastest", "what comes in less what is taken", growing.node))), aside));
  figuresOf(server);
  await Promise.all([queues().catch(() => {}), charts()]);
  health();
  return {
    title: "Overview", node,
    frame(/** @type {string} */ event, /** @type {any} */ data) {
      if (event !== "overview") return;
      Object.assign(server, data);
      figuresOf(data);
      health();
      if (++seconds % 5 === 0 && !isPaused()) reorder();
    },
    refresh: reorder,
  };
}

/** A section without its distance, for columns. @param {string} title @param {string} about @param {...any} content */
const block = (title, about, ...content) => {
  const node = section(title, about, ...content);
  node.className = "";
  return node;
};

const svgSpace = () => el("span.space");

/** @param {string} name */
export const protocolName = (name) => ({ "job-centre": "Job Centre", pinpriq: "Pinpriq", http: "HTTP", processor: "Processor", beanstalkd: "beanstalkd" })[name] ?? name;

/** A server without jobs: what to do first. @param {any} server @param {() => void} reopen */
function empty(server, reopen) {
  const api = new URL("../api/v1/", document.baseURI).href.replace(/\/$/, "");
  const json = "-H 'Content-Type: application/json'";
  const steps = [["Put a job", `curl ${json} -d '{"payload":{"to":"ann"}}' ${api}/queues/mail/jobs`, '{"id":1,"queue":"mail","state":"ready",…}'],
    ["Look at it", `curl '${api}/queues/mail/jobs?state=ready'`, '{"items":[{"id":1,"queue":"mail","payload":{"to":"ann"},…}],"next_cursor":null}'],
    ["Take it", `curl ${json} -d '{"queues":["mail"]}' ${api}/reserve`, '{"jobs":[{"id":1,"payload":{"to":"ann"},"token":"…",…}]}']];
  const listeners = new Map(server.listeners.map((/** @type {any} */ one) => [one.protocol, one.address]));
  const way = (/** @type {string} */ title, /** @type {string} */ protocol, /** @type {string} */ about, /** @type {string} */ flag) => el("div", el("h2", title),
    el("p.mono soft", listeners.get(protocol) ?? "off"), el("p.dim", listeners.has(protocol) ? about : `start with ${flag}`));
  const node = el(".start", el("h1", "The server is up. There are no jobs yet."),
    el("p.soft", `jobcentre ${server.version} has been up for ${age(server.uptime_ms)}. Three commands show the whole round:`),
    el("ol.steps", ...steps.map(([title, command, answer], at) => el("li", el("div", el("h2", title),
      el(".cmd", el("code", command), copyButton(() => command, `Copy command ${at + 1}`)), el("p.answer", answer))))),
    el("p.foot-line wait-line", el("span.state", mark("scheduled"), "This page turns into the overview with the first job.")),
    el("section.ports", { "aria-label": "Other ways in" }, way("Any language, by lines", "job-centre", "JSON lines over TCP, one request a line", "--listen"),
      way("HTTP and JSON", "http", "described at /openapi.json", "--http"), way("beanstalkd clients", "beanstalkd", "as they are", "--beanstalkd")));
  return { title: "Overview", node, frame: (/** @type {string} */ _event, /** @type {any} */ data) => { if (data.jobs || data.totals?.put) reopen(); } };
}
