// The overview: what needs attention, totals, what goes in and out, how the server is.

import { request } from "./api.js";
import { lines, mini, net, shared, thin } from "./chart.js";
import { capital, copyButton, el, facts, figures, go, link, mark, plain, put, queueHref, queueLink, section, segments } from "./dom.js";
import { age, bytes, change, count, many, quantile, rate, share } from "./format.js";
import { page, sparks } from "./list.js";
import { flowCharts } from "./queue.js";
import { table } from "./table.js";

/** States of jobs, and what is in them. @type {Record<string, string>} */
const STATES = { scheduled: "for later", blocked: "held back", ready: "", reserved: "", buried: "out of attempts", completed: "kept for a while" };

/** Milliseconds after which a queue with ready jobs is old, or stuck if nothing is taken. */
export const OLD = 600_000;
const STUCK = 300_000;

/** Buried jobs from which on a queue needs attention. */
const MANY_BURIED = 1000;

/** @param {any} queue */
export const isStuck = (queue) => !queue.paused && queue.oldest_ready_ms > STUCK && !queue.rates.reserved;

/** What is remarkable about a queue. @param {any} queue @returns {[string, string, string][]} kind, shape, words */
export function remarks({ paused, paused_until, ...queue }) {
  const buried = queue.counts.buried, left = paused_until ? `, ${age(Math.max(0, Date.parse(paused_until) - Date.now()))} left` : "";
  const found = /** @type {[any, string, string, string][]} */ ([[buried >= MANY_BURIED, "bad", "buried", `${count(buried)} buried`],
    [isStuck({ paused, ...queue }), "warn", "stuck", `stuck, ${age(queue.oldest_ready_ms)}`], [paused, "warn", "paused", `paused${left}`]]);
  return found.flatMap(([is, ...words]) => is ? [words] : []);
}

/** The open connections. @param {any} server */
export const connected = (server) => Object.values(server.connections).reduce((/** @type {number} */ sum, number) => sum + number, 0);

/** What is known of the server: its own figures, and those of its parts. @param {any} server @param {...string} parts */
export const serverFacts = (server, ...parts) => [facts("Server", { ...server, listeners: null, at: null, begun: null }), ...parts.map((part) => facts(capital(part), server[part]))];

/** @param {string[]} _rest @param {URLSearchParams} _query @param {{frames: any[], reopen: () => void}} context */
export async function openOverview(_rest, _query, { frames, reopen }) {
  const server = await request("server");
  if (!server.jobs && !server.totals.put && !server.queues) return empty(server, reopen);
  let step = "5s", buriedNote = "";
  const row = figures("", "Jobs by state", Object.keys(STATES).map((state) => [state, capital(state)]));
  const attention = el("ul.attention", { "aria-label": "Needs attention" });
  const flow = el("div"), ready = el("div"), minis = el(".minis section"), aside = el("aside"), small = sparks();
  const ranked = (/** @type {string} */ label, /** @type {import("./table.js").Column} */ column) => table({ label, kind: "tight", open: (queue) => go(queueHref(queue.name)),
    columns: [["name grow", "Queue", (queue) => queueLink(queue.name)], ["r w-1b", "Ready", (queue) => count(queue.counts.ready)], column, small.column] });
  const oldest = ranked("Waiting longest", ["r w-2", "Oldest", "oldest_ready_ms", { tone: (queue) => queue.oldest_ready_ms > OLD && "warn" }]);
  const growing = ranked("Growing fastest", ["r w-2", "A minute", (queue) => change(queue.growth), { tone: (queue) => queue.growth > 60 && "warn" }]);

  async function queues() {
    const [old, full] = await Promise.all(["oldest", "ready"].map((sort) => request("queues", { sort, limit: 50 })));
    /** @type {any[]} */
    const all = [...new Map([...old.items, ...full.items].map((queue) => [queue.name, queue])).values()];
    for (const queue of all) queue.growth = Math.round((queue.rates.put - queue.rates.reserved) * 60);
    const first = old.items.filter((/** @type {any} */ queue) => queue.oldest_ready_ms !== null).slice(0, 10);
    const grown = all.filter((queue) => queue.growth > 0 || queue.counts.ready).sort((a, b) => b.growth - a.growth || b.counts.ready - a.counts.ready).slice(0, 10);
    const show = () => { oldest.set(first); growing.set(grown); };
    show();
    small.load([...first, ...grown]).then(show);
    put(attention, all.flatMap((queue) => remarks(queue).map(([kind, shape, words]) =>
      el("li", link(queueHref(queue.name), { class: `tag ${kind}` }, mark(shape), `${plain(queue.name)}: ${words}`)))).slice(0, 6));
    const [most] = all.sort((a, b) => b.counts.buried - a.counts.buried), buried = most?.counts.buried;
    buriedNote = buried ? `${count(buried)} in ${plain(most.name)}` : "";
  }

  async function charts() {
    const answer = await request("server/history", { step }), drawn = flowCharts(answer, server, true), [puts, done] = drawn.flows;
    put(flow, drawn.flow, net(puts.map((value, at) => value - done[at]), change(server.rates.put - server.rates.completed)));
    /** @param {string} name @param {(number | null)[]} values @param {string} [kind] */
    const wait = (name, values, kind) => ({ name, values: thin(values.map((ms) => ms ?? 0), 180), last: age(values.findLast((ms) => ms !== null)), kind });
    put(ready, drawn.ready, section("Time in ready", "", lines({ ...drawn.span, label: "Time in ready", format: age,
      lines: [wait("p50", answer.series.ready_p50_ms, "accent"), wait("p99", answer.series.ready_p99_ms)] })));
  }

  function health() {
    const last = frames[frames.length - 1];
    if (!last) return;
    /** @param {string} name @param {(frame: any, before: any) => number | null} of @param {(value: number) => string} text @param {number} least the least top of its scale @param {any} [most] its top */
    const add = (name, of, text, least, most) => {
      const values = thin(frames.map((frame, at) => of(frame, frames[Math.max(0, at - 30)]) ?? 0), 120), now = values[values.length - 1];
      const top = most ?? Math.max(least, shared(values));
      return mini(name, values, text(now), top, text(top), name === "Failed /s" && now > 0 ? "bad" : "thin");
    };
    const slowest = (/** @type {any} */ later, /** @type {any} */ earlier) => later && earlier && later !== earlier ? (quantile(later, earlier, 0.99) ?? 0) / 1e6 : null;
    put(minis, add("Failed /s", (frame) => frame.rates.failed, rate, 1), add("Answer p99", (frame, before) => slowest(frame.answered_ns, before.answered_ns), age, 1),
      last.journal && add("Sync p99", (frame, before) => slowest(frame.journal?.synced_ns, before.journal?.synced_ns), age, 1),
      add("Loop busy", (frame) => frame.loop.busy_millionths / 1e6, share, 1, 1),
      add("Memory", (frame) => frame.memory.resident_bytes ?? frame.memory.jobs_bytes, bytes, 1, last.limits.max_memory), add("Connections", connected, count, 10));
  }

  function show() {
    const growth = (server.rates.put - server.rates.reserved) * 60;
    const notes = { ...STATES, buried: buriedNote || STATES.buried, ready: `${change(growth)} a minute`, reserved: many(server.waiting_consumers, "waiting consumer") };
    const tones = /** @type {Record<string, any>} */ ({ ready: growth > 60 && "warn", buried: server.counts.buried && "bad" });
    for (const [at, [state, note]] of Object.entries(notes).entries()) row.say(at, count(server.counts[state]), note, tones[state] || "");
    put(aside, serverFacts(server, "memory", "journal", "connections"));
  }

  show();
  await Promise.all([queues().catch(() => {}), charts()]);
  health();
  const reorder = () => Promise.all([queues(), charts()]);
  return page("Overview", { about: attention, actions: [segments("Span of the charts", [["5s", "1 hour"], ["1m", "24 hours"]], step, (value) => { step = value; charts(); })] }, {
    refresh: reorder, every: { 5: reorder },
    frame(event, data) {
      if (event !== "overview") return;
      Object.assign(server, data);
      show();
      health();
    },
  }, row.node, el(".wide-aside section", el("div",
    el(".two", section("In and out, jobs a second", "", flow), section("Ready jobs", "", ready)), minis,
    el(".two section", section("Waiting longest", "", oldest.node), section("Growing fastest", "put, less taken", growing.node))), aside));
}

/** Where the server listens. @param {any} server */
export const listeners = (server) => facts("Listeners", Object.fromEntries(server.listeners.map((/** @type {any} */ one) => [one.protocol, one.address])));

/** A server without jobs: what to do first. @param {any} server @param {() => void} reopen */
function empty(server, reopen) {
  const api = new URL("../api/v1", document.baseURI).href, send = "curl -H 'Content-Type: application/json' -d";
  const steps = [["Put a job", `${send} '{"payload":{"to":"ann"}}' ${api}/queues/mail/jobs`],
    ["Look at it", `curl '${api}/queues/mail/jobs?state=ready'`],
    ["Take it", `${send} '{"queues":["mail"]}' ${api}/reserve`]];
  const node = el(".start", el("h1", "The server is up. There are no jobs yet."),
    el("p.soft", `jobcentre ${server.version} has been up for ${age(server.uptime_ms)}. Three commands show the whole round:`),
    el("ol.steps", steps.map(([title, command]) => el("li", el("div", el("h2.lead", title),
      el(".cmd", el("code", command), copyButton("Copy", `Copy: ${title}`, () => command)))))),
    el("p.foot-line", mark("scheduled"), "This page turns into the overview with the first job."),
    listeners(server));
  return { title: "Overview", node, frame: (/** @type {string} */ _event, /** @type {any} */ data) => { if (data.jobs || data.totals?.put) reopen(); } };
}
