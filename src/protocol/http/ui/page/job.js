// One job: where it is in its life, why it failed, and its payload as exact text.

import { call, get, may, post } from "./api.js";
import { plan } from "./act.js";
import { lanes } from "./chart.js";
import { attempt, confirm, dialog } from "./dialog.js";
import { button, buttonLink, changing, copy, el, facts, field, input, link, plain, put, queueHref, queueName, save, section, shown, state, tag } from "./dom.js";
import { hexView, jsonView, sizeOf, unpack, wrong } from "./exact.js";
import { age, bytes, duration, moment, now, since } from "./format.js";
import { isPaused } from "./main.js";
import { encode, json } from "./text.js";

/** The state of a job behind an event of its history. @type {Record<string, string>} */
const BEHIND = { put: "ready", reserved: "reserved", released: "ready", abandoned: "ready", expired: "ready", retried: "scheduled", due: "ready", buried: "buried", kicked: "ready", completed: "completed" };

/** Spans of time in states. @param {[string, number][]} events the states, and since when */
const spansOf = (events) => events.map(([name, from], place) => ({ state: name, from, until: Math.max(from, events[place + 1]?.[1] ?? now()) }));

/** The same by the history that an index keeps. @param {any} job */
function historySpans({ state: last, history }) {
  const events = /** @type {[string, number][]} */ ([]);
  for (const { event, at } of history) {
    const before = events[events.length - 1];
    // What becomes due was delayed before.
    if (event === "due" && before) before[0] = "scheduled";
    if (BEHIND[event]) events.push([BEHIND[event], Date.parse(at)]);
  }
  if (events.length) events[events.length - 1][0] = last;
  return spansOf(events);
}

/** The runs of a job, as its history has them. @param {any[]} history */
function runs(history) {
  const found = /** @type {{from: string, end?: any}[]} */ ([]);
  for (const one of history) {
    if (one.event === "reserved") found.unshift({ from: one.at });
    else if (found[0] && !found[0].end && one.event !== "changed") found[0].end = one;
  }
  const row = (/** @type {string} */ tag, /** @type {any[]} */ cells) => el("tr", ...cells.map((cell) => el(tag, { scope: tag === "th" ? "col" : null }, cell)));
  return found.length > 0 && section("Runs", "the last ones, newest first", el("table.grid", el("thead", row("th", ["Begun, UTC", "Lasted", "Ended"])),
    el("tbody", ...found.map(({ from, end }) => row("td", [moment(from), end?.at === from ? "under 1 s" : age((end ? Date.parse(end.at) : now()) - Date.parse(from)), end ? el("span", { class: ["failed", "expired", "abandoned", "buried"].includes(end.event) ? "bad" : "" }, end.event) : "not yet"])))));
}

/** When the job came into which state, as far as it is known. @param {any} job */
function spans(job) {
  if (job.history) return historySpans(job);
  const at = (/** @type {string | null | undefined} */ text) => text ? Date.parse(text) : NaN;
  const made = at(job.created_at), ready = at(job.available_at), taken = at(job.lease?.since), failed = at(job.last_error?.at), end = now();
  /** @type {[string, number][]} */
  const events = [];
  if (!isNaN(ready) && ready - made > 1500 && job.state !== "blocked") events.push([job.attempts && failed ? "ready" : "scheduled", made]);
  if (isNaN(ready) || ready - made <= 1500) events.push([job.state === "blocked" ? "blocked" : job.state === "scheduled" ? "scheduled" : "ready", made]);
  if (ready - made > 1500 && job.state !== "scheduled" && ready < end) events.push(["ready", ready]);
  if (job.state === "scheduled" && !isNaN(failed)) events.push(["scheduled", failed]);
  if (job.state === "reserved") events.push(["reserved", isNaN(taken) ? end : taken]);
  if (job.state === "buried") events.push(["buried", isNaN(failed) ? end : failed]);
  if (job.state === "completed") events.push(["completed", end]);
  events.sort((a, b) => a[1] - b[1]);
  return spansOf(events);
}

/** Why it is where it is, in a sentence. @param {any} job @param {any} queue */
function why(job, queue) {
  const error = job.last_error ? ` The last run ended with ${plain(job.last_error.error)}.` : "";
  if (job.state === "ready" && queue?.paused) return "It is ready, and its queue is paused: nothing is handed out.";
  if (job.state === "ready" && queue && queue.waiting_consumers === 0 && queue.rates.reserved === 0) return `It is ready, and nobody takes jobs of this queue.${error}`;
  if (job.state === "ready") return `It waits for a worker; more urgent jobs go first.${error}`;
  if (job.state === "buried") return job.max_attempts && job.attempts >= job.max_attempts ? `${job.max_attempts > 1 ? `All ${job.attempts} attempts are` : "Its only attempt is"} used up.${error} It stays here until somebody kicks or deletes it.` : `It was buried after ${job.attempts} of ${job.max_attempts ?? "any number of"} attempts.${error}`;
  if (job.state === "scheduled") return job.attempts ? `It is tried again at ${moment(job.available_at)}.${error}` : `It becomes ready at ${moment(job.available_at)}.`;
  if (job.state === "blocked") return job.blocked_by === "dependency" ? "It waits for other jobs to be done." : `It is held back by the ${plain(job.blocked_by ?? "constraint")}.`;
  if (job.state === "reserved") return `${plain(job.lease?.worker ?? "A worker")} has it${job.lease?.until ? `, until ${moment(job.lease.until)} at most` : ""}.`;
  return "It is done, and kept for its result.";
}

/** @param {string[]} rest @param {URLSearchParams} _query @param {{reopen: () => void}} context */
export async function openJob(rest, _query, { reopen }) {
  const id = rest[0];
  let job = await get(`jobs/${encode(id)}`);
  let queue = may("observe") && job.queue !== "" ? await get(`queues/${encode(job.queue)}`).catch(() => null) : null;
  const manages = may("manage", job.queue);
  const place = el("div"), life = el("div"), error = el("div"), aside = el("aside"), tags = el("span"), actions = el(".actions push");
  const done = () => reopen();
  const act = (/** @type {string} */ refusal, /** @type {() => Promise<any>} */ what) => attempt(place, refusal, async () => { await what(); await again(); });

  function edit() {
    const pri = input("full", { value: job.pri ?? 0 }), delay = input("full", { placeholder: "10m; 0 makes it ready" }), attempts = input("full", { value: job.max_attempts ?? "" });
    const text = el("textarea.input mono full", { rows: 8, spellcheck: "false" });
    text.value = job.payload_base64 === undefined ? job.payload : "";
    const hint = el("p.hint bad");
    text.addEventListener("input", () => { hint.textContent = wrong(text.value); });
    dialog(`Change job ${id}`, [el(".form", field("Priority", pri), field("Delay", delay), field("Attempts", attempts), job.payload_base64 === undefined && field("Payload", text), hint)], { verb: "Change it", act: async () => {
      const parts = [];
      if (pri.value !== String(job.pri)) parts.push(`"pri":${/^-?\d+$/.test(pri.value) ? pri.value : json(pri.value)}`);
      if (delay.value.trim()) {
        const ms = duration(delay.value);
        if (isNaN(ms)) throw new Error("Write the delay as a time such as 90s, 10m or 2h.");
        parts.push(`"delay_ms":${ms}`);
      }
      if (attempts.value && attempts.value !== String(job.max_attempts)) parts.push(`"max_attempts":${Number(attempts.value)}`);
      if (job.payload_base64 === undefined && text.value !== job.payload) {
        if (wrong(text.value)) throw new Error(wrong(text.value));
        parts.push(`"payload":${text.value}`);
      }
      if (!parts.length) return true;
      await call("PATCH", `jobs/${id}`, { raw: `{${parts.join(",")}}` });
      await again();
    } });
  }

  function move() {
    const to = input("mono full large", { "aria-label": "To which queue", value: job.queue });
    dialog(`Move job ${id}`, [el("p", "It keeps its id, priority and history."), to], { verb: "Move it", act: async () => { await call("PATCH", `jobs/${id}`, { body: { queue: to.value } }); await again(); } });
  }

  function release() {
    return changing("Bury", () => act(`Job ${id} was not buried.`, () => post(`jobs/${id}/bury`)));
  }

  function head() {
    const age_ = job.state === "buried" && job.last_error?.at ? ` for ${age(since(job.last_error.at))}` : "";
    put(tags, tag(job.state === "buried" ? "bad" : job.state === "blocked" ? "warn" : "", job.state, job.state + age_));
    const movable = manages && !["reserved", "completed"].includes(job.state);
    put(actions, manages && ["buried", "scheduled"].includes(job.state) && changing("Kick", () => act(`Job ${id} was not kicked.`, () => post(`jobs/${id}/kick`)), "go"),
      manages && !["buried", "completed"].includes(job.state) && release(),
      may("put") && buttonLink(`#/put?from=${id}`, "Duplicate"), movable && changing("Change…", edit), movable && may("put") && changing("Move…", move),
      manages && changing("Delete…", () => confirm(`Delete job ${id} of ${plan.name_(job.queue)}?`, "It is gone at once and cannot be brought back. Jobs that depend on it are cancelled, unless they say otherwise.", "Delete it", async () => {
        await call("DELETE", `jobs/${id}`);
        location.hash = `${queueHref(job.queue)}?state=${job.state}`;
      }, { keep: "Keep it" }), "grave"));
    const all = spans(job);
    put(life, el("p.why-line", why(job, queue)), all.length > 0 && lanes(all, state));
    put(error, job.last_error && section("Last error", job.last_error.at ? `${moment(job.last_error.at, true)}, after attempt ${job.attempts}` : "", el(".error", el("strong.bad", ...shown(job.last_error.error)), el("pre.trace", { tabindex: "0" }, ...textLines(job.last_error.message ?? "")))),
      job.history && runs(job.history), job.progress !== null && section("Progress", "", el("p", `${Math.round(job.progress * 100)} %`, job.progress_message ? `: ${plain(job.progress_message)}` : "")));
    put(aside, facts("Terms", [["Priority", String(job.pri ?? "–")], ["Attempts", job.max_attempts ? `${job.attempts} of ${job.max_attempts}` : String(job.attempts)], ["Lease", job.ttr_ms ? age(job.ttr_ms) : "no limit"], ["Retries after", job.backoff ? `${age(job.backoff.first_ms)}${job.backoff.kind === "fixed" ? "" : `, doubling to ${age(job.backoff.max_ms)}`}` : "none"], ["Result kept", job.keep_result_ms ? age(job.keep_result_ms) : "no"], ["Expires", moment(job.expires_at)], ["Kept until", moment(job.kept_until)]]),
      facts("Ties", [["Queue", link(queueHref(job.queue), { class: "link" }, ...queueName(job.queue))], ["Key", text(job.key)], ["Group", text(job.group)], ["After", job.after.length ? el("span", ...job.after.flatMap((/** @type {any} */ other) => [link(`#/job/${other}`, { class: "link" }, String(other)), " "])) : "none"], ["Blocked by", text(job.blocked_by)]]),
      job.lease && facts("Lease", [["Worker", text(job.lease.worker)], ["By", job.lease.protocol], ["Since", moment(job.lease.since)], ["Until", moment(job.lease.until)]]),
      facts("Moments, UTC", [["Put", moment(job.created_at)], ["Ready", moment(job.available_at, true)], ["Last error", moment(job.last_error?.at, true)]]));
  }
  const text = (/** @type {string | null} */ value) => value ? el("span.mono", ...shown(value)) : "none";

  async function again() {
    job = await get(`jobs/${id}`);
    if (queue) queue = await get(`queues/${encode(job.queue)}`).catch(() => null);
    head();
  }

  head();
  const node = el("div", el(".head", el("h1", link(queueHref(job.queue), { class: "crumb" }, ...queueName(job.queue)), el("span.crumb-sep", "/"), String(job.id)), tags, actions), place,
    el(".wide-aside job", el("div", section("Life", "as far as the server keeps it", life), error, exact("Payload", job, `job-${id}`), job.result !== null && job.result !== "null" && exact("Result", { payload: job.result }, `job-${id}-result`)), aside));
  node.querySelector(".section").className = "";
  let seconds = 0;
  return {
    title: `Job ${id}`, node, close() {},
    frame(/** @type {string} */ event) {
      if (event === "overview" && !isPaused() && ++seconds % 2 === 0 && !document.querySelector("dialog[open]")) again().catch((problem) => { if (problem.status === 410) done(); });
    },
    refresh: done,
  };
}

/** Text whose line breaks stay. @param {string} text */
const textLines = (text) => text.split("\n").flatMap((line, at) => [at ? "\n" : "", ...shown(line.replace(/\r$/, ""))]);

/** Exact text with its tools. @param {string} title @param {{payload: string, payload_base64?: string}} job @param {string} name */
function exact(title, job, name) {
  const packed = job.payload_base64 === undefined ? null : unpack(job.payload_base64);
  const view = packed ? hexView(packed) : jsonView(job.payload);
  const copied = el("span.dim", { role: "status" });
  const wrap = button("Wrap", () => { wrap.setAttribute("aria-pressed", String(!view.classList.toggle("nowrap"))); }, { kind: "quiet", "aria-pressed": "true" });
  const node = section(title, `exact text, ${bytes(sizeOf(job))}, ${packed ? "bytes" : "JSON"}`, view, el("p.hint", packed ? "Copy gives the bytes in base64." : "Numbers and escapes are shown as they were put. Copy gives the bytes."));
  node.querySelector(".section-head")?.append(el(".actions push", copied, !packed && wrap,
    button("Download", () => save(packed ?? job.payload, packed ? `${name}.bin` : `${name}.json`, packed ? "application/octet-stream" : "application/json"), { kind: "quiet", icon: "down" }),
    button("Copy", async () => { await copy(job.payload_base64 ?? job.payload); copied.textContent = "copied"; setTimeout(() => { copied.textContent = ""; }, 1500); }, { kind: "quiet", icon: "copy" })));
  return node;
}


