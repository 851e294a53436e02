// One job: where it is in its life, why it failed, and its payload as exact text.

import { FOR_GOOD } from "./act.js";
import { call, request, may, post } from "./api.js";
import { lanes } from "./chart.js";
import { ask, attempt } from "./dialog.js";
import { button, buttonLink, changing, copyButton, el, facts, go, link, plain, put, queueHref, queueName, queueWords, save, section, shown, state, tag } from "./dom.js";
import { hexView, jsonView, sizeOf, unpack } from "./exact.js";
import { age, apart, bytes, moment, now } from "./format.js";
import { page, removal } from "./list.js";
import { attempts } from "./queue.js";
import { encode } from "./text.js";

/** The state of a job behind an event of its history. @type {Record<string, string>} */
const BEHIND = { put: "ready", released: "ready", abandoned: "ready", expired: "ready", retried: "scheduled", due: "ready", kicked: "ready", reserved: "reserved", buried: "buried", completed: "completed" };

/** When the job came into which state, by the history that an index keeps. @param {any} job */
function recorded({ state: last, history }) {
  const events = /** @type {[string, number][]} */ ([]);
  for (const { event, at } of history) {
    // What becomes due was delayed before.
    if (event === "due" && events.length) events[events.length - 1][0] = "scheduled";
    if (BEHIND[event]) events.push([BEHIND[event], Date.parse(at)]);
  }
  if (events.length) events[events.length - 1][0] = last;
  return events;
}

/** The same without a history, as far as it is known. @param {any} job */
function guessed(job) {
  const [made, ready, last] = [job.created_at, job.available_at, job.lease?.since ?? job.last_error?.at].map((text) => Date.parse(text));
  const isBlocked = job.state === "blocked", isLate = ready - made > 1500 && !(job.attempts && last), end = +now();
  const events = /** @type {[string, number][]} */ ([[isBlocked ? "blocked" : isLate ? "scheduled" : "ready", made], ["ready", isBlocked ? NaN : ready], [job.state, last || end]]);
  return events.filter(([, at]) => at <= end).sort((a, b) => a[1] - b[1]);
}

/** Spans of time in states. @param {[string, number][]} events the states, and since when */
const spansOf = (events) => events.map(([name, from], at) => ({ state: name, from, until: Math.max(from, events[at + 1]?.[1] ?? +now()) }));

/** The runs of a job, as its history has them. @param {any[]} history */
function runs(history) {
  const found = /** @type {{from: string, end?: any}[]} */ ([]);
  for (const one of history) {
    if (one.event === "reserved") found.unshift({ from: one.at });
    else if (found[0] && !found[0].end && one.event !== "changed") found[0].end = one;
  }
  return found.length > 0 && section("Runs", "newest first", el("table.grid",
    el("thead", el("tr", ["Begun, UTC", "Lasted", "Ended"].map((text) => el("th", { scope: "col" }, text)))),
    el("tbody", found.map(({ from, end }) => el("tr", el("td", moment(from)), el("td", end?.at === from ? "under 1 s" : age((end ? Date.parse(end.at) : +now()) - Date.parse(from))),
      el("td", { class: /failed|expired|abandoned|buried/.test(end?.event) && "bad" }, end?.event ?? "not yet"))))));
}

/** Why it is where it is, in a sentence. @param {any} job @param {any} queue */
function why(job, queue) {
  const error = job.last_error ? ` The last run ended with ${plain(job.last_error.error)}.` : "", available = moment(job.available_at);
  switch (job.state) {
    case "ready":
      return queue?.paused ? "It is ready, and its queue is paused."
        : queue && !queue.waiting_consumers && !queue.rates.reserved ? `It is ready, and no client takes jobs of this queue.${error}` : `It waits for a worker; more urgent jobs go first.${error}`;
    case "buried":
      return job.max_attempts && job.attempts >= job.max_attempts ? `${job.max_attempts > 1 ? `All ${job.attempts} attempts are` : "Its only attempt is"} used up.${error}`
        : `It was buried after ${attempts(job)} attempts.${error}`;
    case "scheduled": return `It ${job.attempts ? "is tried again" : "becomes ready"} at ${available}.${error}`;
    case "blocked": return job.blocked_by === "dependency" ? "It waits for other jobs to be done." : `It is held back by the ${plain(job.blocked_by ?? "constraint")}.`;
    case "reserved": return `${plain(job.lease?.worker ?? "A worker")} has it${job.lease?.until ? `, until ${moment(job.lease.until)} at most` : ""}.`;
    default: return "It is done, and kept for its result.";
  }
}

/** @param {string[]} rest @param {URLSearchParams} _query @param {{reopen: () => void}} context */
export async function openJob([id], _query, { reopen }) {
  const path = `jobs/${encode(id)}`;
  let job = await request(path);
  const queueOf = async () => may("observe") && job.queue && request(`queues/${encode(job.queue)}`).catch(() => null);
  let queue = await queueOf();
  const manages = may("manage", job.queue), moves = manages && may("put");
  const life = el("div"), error = el("div"), aside = el("aside"), tags = el("span"), actions = el("span.actions");
  const act = (/** @type {() => any} */ what) => attempt(async () => { await what(); await again(); });
  const change = (/** @type {string} */ members) => call("PATCH", path, { body: `{${members}}` }).then(again);

  const edit = () => ask(`Change job ${id}`, "", [["pri", "Priority", "whole", job.pri], ["delay_ms", "Delay", "time", "", "10m; 0 makes it ready"], ["max_attempts", "Attempts", "whole", job.max_attempts],
    .../** @type {import("./dialog.js").Field[]} */ (job.payload_base64 === undefined ? [["payload", "Payload", "json", job.payload]] : [])], "Change it",
  (form) => { if (form.changed().length) return change(form.members(...form.changed())); });
  const move = () => ask(`Move job ${id}`, "", [["queue", "To which queue", "name", job.queue]], "Move it", (form) => change(form.members()));

  function show() {
    const is = (/** @type {string[]} */ ...states) => states.includes(job.state);
    put(tags, tag(is("buried") ? "bad" : is("blocked") ? "warn" : "", job.state, job.state + (is("buried") && job.last_error?.at ? ` for ${apart(job.last_error.at)}` : "")));
    put(actions, manages && is("buried", "scheduled") && changing("Kick", () => act(() => post(`${path}/kick`)), "go"),
      manages && !is("buried", "completed") && changing("Bury", () => act(() => post(`${path}/bury`))), may("put") && buttonLink(`#/put?from=${id}`, "Duplicate"),
      manages && !is("reserved", "completed") && changing("Change…", edit), moves && !is("reserved", "completed") && changing("Move…", move),
      manages && changing("Delete…", () => removal(`Delete job ${id} of ${queueWords(job.queue)}`, FOR_GOOD, path,
        () => go(`${queueHref(job.queue)}?state=${job.state}`)), "grave"));
    const { payload, payload_base64, result, progress, progress_message, last_error, history, attempts: _attempts, ...rest } = job;
    const events = history ? recorded(job) : guessed(job);
    put(life, el("p", why(job, queue)), events.length > 0 && lanes(spansOf(events), state));
    put(error, last_error && section("Last error", `${moment(last_error.at)}, after attempt ${job.attempts}`,
      el("strong.bad", shown(last_error.error)), el("pre.trace", { tabindex: "0" }, lined(last_error.message ?? ""))),
    history && runs(history), progress !== null && section("Progress", "", el("p", `${Math.round(progress * 100)} %`, progress_message && `: ${plain(progress_message)}`)));
    put(aside, facts("Job, times in UTC", { ...rest, max_attempts: attempts(job) }), facts("Lease", job.lease), facts("Backoff", job.backoff));
  }

  async function again() {
    job = await request(path);
    queue = await queueOf();
    show();
  }

  show();
  return page(`Job ${id}`, { heading: [link(queueHref(job.queue), { class: "crumb" }, queueName(job.queue), " / "), id], about: tags, actions: [actions] },
    { refresh: reopen, every: { 2: () => again().catch((gone) => { if (gone.status === 410) reopen(); }) } },
    el(".wide-aside job", el("div", section("Life", "", life), error, exact("Payload", job, `job-${id}`), job.result && job.result !== "null" && exact("Result", { payload: job.result }, `job-${id}-result`)), aside));
}

/** Text of a user whose line breaks stay. @param {string} text */
const lined = (text) => text.split(/\r?\n/).flatMap((line) => [...shown(line), "\n"]);

/** Exact text with its tools. @param {string} title @param {{payload: string, payload_base64?: string}} job @param {string} name */
function exact(title, job, name) {
  const packed = job.payload_base64 === undefined ? null : unpack(job.payload_base64);
  const view = packed ? hexView(packed) : jsonView(job.payload);
  const wrap = button("Wrap", () => { wrap.setAttribute("aria-pressed", String(!view.classList.toggle("nowrap"))); }, "quiet", { "aria-pressed": "true" });
  const node = section(title, `exact text, ${bytes(sizeOf(job))}, ${packed ? "bytes" : "JSON"}`, view);
  node.firstElementChild.append(el(".actions push", !packed && wrap,
    button("↓ Download", () => save(packed ?? job.payload, `${name}.${packed ? "bin" : "json"}`, packed ? "application/octet-stream" : undefined), "quiet"),
    copyButton("Copy", packed ? "Copy as base64" : "Copy", () => job.payload_base64 ?? job.payload)));
  return node;
}
