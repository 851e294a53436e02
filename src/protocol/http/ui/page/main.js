// The frame of the page: routes, keys, the bar above and the line below, signing in and out.

import { call, identify, kept, me, onUnauthorized, Problem } from "./api.js";
import { openConstraints } from "./constraints.js";
import { closeDialog, dialog, notice, stage } from "./dialog.js";
import { button, buttonLink, el, icon, iconButton, input, link, plain, put, queueHref, say, svg } from "./dom.js";
import { age, count, moment, now, quantile, share } from "./format.js";
import { openJob } from "./job.js";
import { retryLive, startLive, stopLive, watchQueues } from "./live.js";
import { openOverview } from "./overview.js";
import { openPut } from "./put.js";
import { openQueue } from "./queue.js";
import { openQueues } from "./queues.js";
import { openSchedules } from "./schedules.js";
import { openSearch } from "./search.js";
import { openSystem } from "./system.js";
import { currentTable } from "./table.js";
import { openWorkers } from "./workers.js";
import { encode } from "./text.js";

/**
 * A page: `frame` takes what comes over the stream, `refresh` asks anew, `close` ends.
 * @typedef {{title: string, node: HTMLElement, queues?: string[], frame?: (event: string, data: any) => void, refresh?: () => any, close?: () => void}} Page
 */

const NAV = [["overview", "Overview", "o"], ["queues", "Queues", "q"], ["search", "Search", "s"], ["workers", "Workers", "w"],
  ["schedules", "Schedules", "c"], ["constraints", "Constraints", "l"], ["system", "System", "y"]];

/** What opens a route, and which entry of the bar it belongs to. @type {Record<string, [(rest: string[], query: URLSearchParams, context: any) => Promise<Page>, string]>} */
const ROUTES = { overview: [openOverview, "overview"], queues: [openQueues, "queues"], queue: [openQueue, "queues"], job: [openJob, "queues"], put: [openPut, "queues"], search: [openSearch, "search"],
  workers: [openWorkers, "workers"], schedules: [openSchedules, "schedules"], constraints: [openConstraints, "constraints"], system: [openSystem, "system"] };

const KEYS = [["g o, q, s, w, c, l, y", "go to a page"], ["g p", "put a job"], ["/", "find a queue or a job"], ["f", "into the filter"], ["j, k", "next row, row before"], ["Enter", "open the row"],
  ["x, X", "choose the row, or all up to it"], ["r", "live on and off"], ["t", "light and dark"], ["Esc", "close"], ["?", "these keys"]];

/** @type {Page | null} */
let page = null;
let opened = 0;
let paused = false;
/** @type {import("./live.js").Status} */
let status = "waiting";
/** The last figures of the server, and those of the last minute. @type {any[]} */
export const frames = [];
let lastAt = 0;

const label = stage();
const main = el("main", { id: "main", tabindex: "-1" });
const nav = el("nav.nav", { "aria-label": "Pages" });
const who = el("span.who");
const lost = el(".lost-place");
const said = { live: el("span", "Connecting"), at: el("b"), busy: el("b"), p99: el("b"), sync: el("b"), connections: el("b"), actions: el("span.p3") };
const syncs = el("span.p3", "sync p99 ", said.sync);
const foot = el("footer.status",
  el("span.live", { role: "status" }, el("span.dot"), said.live), el("span", "as of ", said.at, " UTC"), el("span.p2", "loop ", said.busy, " busy"),
  el("span.p3", "answers p99 ", said.p99), syncs, el("span.p2", "connections ", said.connections), said.actions,
  el("span.p2 push", button("", () => pause(!paused), "quiet keyed"), " ", button("", keys, "quiet keyed")));
for (const [at, [key, text]] of [["r", "live on/off"], ["?", "keys"]].entries()) put(foot.querySelectorAll(".keyed")[at], el("kbd", { "aria-hidden": "true" }, key), ` ${text}`);

/** The logo and the name of the stage. */
const brand = () => link("#/overview", { class: "brand" }, svg("svg", svg("use", { href: "#mark" })), "jobcentre", label && el("span.env", plain(label)));

function frame() {
  for (const [name, text] of NAV) nav.append(link(`#/${name}`, { "data-page": name }, el("span", { "data-label": text }, text)));
  const top = el("header.top", brand(), nav, el(".top-end",
    el("button.find", { type: "button", onclick: find }, icon("find"), el("span", "Queue or job id"), el("kbd", { "aria-hidden": "true" }, "/")),
    iconButton("theme", "Switch between light and dark", theme), who));
  document.body.append(link("#main", { class: "skip", onclick: (/** @type {Event} */ event) => { event.preventDefault(); main.focus(); } }, "Skip to content"), top, el(".under-top", lost), main, foot);
}

/** What the address names. */
function route() {
  const [path, text = ""] = location.hash.replace(/^#\/?/, "").split("?");
  const [name, ...rest] = path.split("/");
  const decoded = rest.map((part) => { try { return decodeURIComponent(part); } catch { return part; } });
  return { name: name || "overview", rest: decoded, query: new URLSearchParams(text) };
}

async function show() {
  const number = ++opened;
  const { name, rest, query } = route();
  const [open, entry] = Object.hasOwn(ROUTES, name) ? ROUTES[name] : [null, ""];
  closeDialog();
  for (const node of nav.children) {
    if (/** @type {HTMLElement} */ (node).dataset.page === entry) {
      node.setAttribute("aria-current", "page");
      node.scrollIntoView({ block: "nearest", inline: "center" });
    } else node.removeAttribute("aria-current");
  }
  /** @type {Page} */
  let next;
  try {
    if (!open) throw new Problem(404, "There is no such page", "The address names no page of the dashboard.");
    next = await open(rest, query, { reopen: show, frames });
  } catch (error) {
    next = problem(name, rest, /** @type {any} */ (error));
  }
  if (number !== opened) return next.close?.();
  page?.close?.();
  page = next;
  document.title = [plain(next.title), label, "jobcentre"].filter(Boolean).join(" · ");
  put(main, next.node);
  document.body.classList.remove("has-sel");
  watchQueues(next.queues ?? []);
  const last = frames[frames.length - 1];
  if (last) next.frame?.("overview", last);
  shut();
}

/** A page about what is not there. @param {string} name @param {string[]} rest @param {Error & {status?: number, title?: string}} error @returns {Page} */
function problem(name, rest, error) {
  const gone = name === "job" && error.status === 410;
  const title = gone ? "This job is not here any more" : error.status === 403 ? "You may not see this" : error.title ?? "Something went wrong";
  const text = gone ? `Job ${rest[0]} was put once and has since been completed, deleted or cancelled, or it has expired. Its number is never given out again.` : error.message;
  return { title, node: el("div", el(".head", el("h1", rest[0] ?? title)), el(".gone",
    el("h2.lead", title), el("p.soft", plain(text)),
    el(".actions", buttonLink("#/queues", "All queues"), button("Try again", show, "quiet")))) };
}

/** @param {string} event @param {any} data */
function take(event, data) {
  if (event === "overview") {
    const before = frames[frames.length - 1];
    data.begun = Date.now() - data.uptime_ms;
    if (before && data.begun - before.begun > 1500) {
      frames.length = 0;
      announce("The server was started anew", `${age(data.uptime_ms)} ago.`);
      page?.refresh?.();
    }
    data.at = now();
    frames.push(data);
    if (frames.length > 900) frames.shift();
    lastAt = Date.now();
    line(data);
  }
  if (!paused) page?.frame?.(event, data);
}

/** The frame that is about a minute old. */
export const minuteAgo = () => frames[Math.max(0, frames.length - 61)];

/** The line below. @param {any} data */
function line(data) {
  if (paused) return;
  say(said.at, moment(data.at));
  say(said.busy, share(data.loop.busy_millionths / 1e6));
  const before = frames.length > 1 ? minuteAgo() : undefined;
  const p99 = quantile(data.answered_ns, before?.answered_ns, 0.99);
  say(said.p99, p99 === null ? "–" : age(p99 / 1e6));
  syncs.hidden = !data.journal;
  const sync = data.journal && quantile(data.journal.synced_ns, before?.journal?.synced_ns, 0.99);
  say(said.sync, sync ? age(sync / 1e6) : "–");
  say(said.connections, count(Object.values(data.connections).reduce((/** @type {number} */ sum, /** @type {any} */ number) => sum + number, 0)));
}

/** What an action that is under way has done so far. @param {string} text */
export const doing = (text) => say(said.actions, text);

/** @type {HTMLElement | null} */
let lostNotice = null;

/** @param {import("./live.js").Status} next */
function setStatus(next) {
  const was = status;
  status = next;
  foot.classList.toggle("lost", status === "lost" || paused);
  say(said.live, status === "lost" ? "Not connected" : paused ? "Paused" : status === "polling" ? "Every 5 s" : status === "live" ? "Live" : "Connecting");
  document.body.classList.toggle("stale", status === "lost");
  if (status === was) return;
  if (status === "waiting") identify().catch(() => {});
  if (status === "lost") {
    put(lost, lostNotice = notice("", "stuck", "The server does not answer.", `What you see is from ${frames.length ? moment(frames[frames.length - 1].at) : "before"} UTC. Buttons that change something are off until it is back; nothing is sent twice.`,
      [button("Try now", retryLive)]));
    // A session may have ended with the server.
    const check = () => status === "lost" && setTimeout(() => identify().then(retryLive, check), 3000);
    check();
  } else {
    lostNotice?.remove();
    if (was === "lost") page?.refresh?.();
  }
  shut();
}

/** Switches off what changes something while the server is away. */
export function shut() {
  for (const node of document.querySelectorAll("[data-changes]")) {
    const control = /** @type {HTMLButtonElement} */ (node);
    if (status === "lost" && !control.disabled) { control.disabled = true; control.dataset.shut = "1"; }
    if (status !== "lost" && control.dataset.shut) { control.disabled = false; delete control.dataset.shut; }
  }
}

/** Says something for a while. @param {string} title @param {string} text */
function announce(title, text) {
  const node = notice("info", "reserved", title, text, [button("Close", () => node.remove(), "quiet")]);
  put(lost, node);
  setTimeout(() => node.remove(), 20_000);
}

/** @param {boolean} on */
function pause(on) {
  paused = on;
  setStatus(status);
  const last = frames[frames.length - 1];
  if (!paused) { page?.refresh?.(); if (last) { page?.frame?.("overview", last); line(last); } }
}

/** Whether values may change and rows be ordered anew. */
export const isPaused = () => paused;

function theme() {
  const root = document.documentElement;
  const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
  try { localStorage.setItem("jobcentre-theme", root.dataset.theme); } catch { /* Nothing is kept in this mode. */ }
}

function keys() {
  dialog("Keys", [el("dl.kv keys", ...KEYS.map(([key, text]) => el("div", el("dt", ...key.split(/(, | )/).map((part) => part.trim() && part !== ", " ? el("kbd", part) : part)), el("dd", text))))]);
}

/** Asks for a queue or a job. */
function find() {
  const text = input("full large", { "aria-label": "Queue or job id", placeholder: "mail.digest, or 48211985" });
  const exact = el("p.hint", "A number is the id of a job; anything else the begin of a queue's name.");
  dialog("Find", [text, exact], { verb: "Open", keep: "Close", act: () => {
    const wanted = text.value.trim();
    if (!wanted) return false;
    location.hash = /^\d+$/.test(wanted) ? `#/job/${wanted}` : wanted.includes("*") ? `#/queues?match=${encode(wanted)}` : `#/queues?match=${encode(`${wanted}*`)}`;
    if (/^[^*]+$/.test(wanted) && !/^\d+$/.test(wanted)) call("GET", `queues/${encode(wanted)}`).then(() => { location.hash = queueHref(wanted); }, () => {});
    return true;
  } });
}

let prefix = 0;
addEventListener("keydown", (event) => {
  const target = /** @type {Element} */ (event.target);
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (target.closest("input:not([type=checkbox]), textarea, select")) {
    if (event.key === "Escape") /** @type {HTMLElement} */ (target).blur();
    return;
  }
  if (document.querySelector("dialog[open]") || document.body.classList.contains("signed-out")) return;
  const table = currentTable();
  const after = Date.now() - prefix < 1500;
  prefix = 0;
  const go = after && [...NAV, ["put", "", "p"]].find(([, , key]) => key === event.key);
  if (go) location.hash = `#/${go[0]}`;
  else if (event.key === "g") prefix = Date.now();
  else if (event.key === "/") find();
  else if (event.key === "f") /** @type {HTMLElement | null} */ (main.querySelector("input[type=search]"))?.focus();
  else if (event.key === "j" || event.key === "k") table?.step(event.key === "j" ? 1 : -1);
  else if (event.key === "x" || event.key === "X") table?.toggle(event.shiftKey);
  else if (event.key === "Enter" && !target.closest("a, button, summary, input")) table?.open();
  else if (event.key === "Escape") table?.clear?.();
  else if (event.key === "r") pause(!paused);
  else if (event.key === "t") theme();
  else if (event.key === "?") keys();
  else return;
  event.preventDefault();
});

/** The page on which a token is exchanged for a session. @param {string} [why] */
function signIn(why) {
  if (document.body.classList.contains("signed-out")) return;
  stopLive();
  page?.close?.();
  page = null;
  const token = input("large full", { id: "token", type: "password", autocomplete: "current-password" });
  const wrong = el("p.hint bad", { role: "alert" }, why);
  const form = el("form", { onsubmit: async (/** @type {Event} */ event) => {
    event.preventDefault();
    wrong.textContent = "";
    try {
      await call("POST", "session", { headers: { Authorization: `Bearer ${token.value.trim()}` } });
      location.reload();
    } catch (error) {
      token.setAttribute("aria-invalid", "true");
      wrong.textContent = /** @type {any} */ (error).status === 401 ? "This token is not known here, or it has ended." : String(/** @type {Error} */ (error).message);
      token.focus();
    }
  } }, el("div", el("label.label", { for: "token" }, "Token"), token, wrong), el("button.btn go large", { type: "submit" }, "Sign in"));
  document.body.classList.add("signed-out");
  document.title = ["Sign in", label, "jobcentre"].filter(Boolean).join(" · ");
  for (const node of [...document.body.children]) if (!node.matches(".sprite, noscript")) node.remove();
  document.body.append(el("main.alone", brand(), el("h1", "Sign in"), form,
    el("aside", "An administrator makes one with ", el("code", "jobcentre user add"), ". It is exchanged for a session of 12 hours and is not kept in this browser.")));
  token.focus();
}

async function leave() {
  await call("DELETE", "session").catch(() => {});
  signIn();
}

async function begin() {
  onUnauthorized(() => signIn(me.user === null ? undefined : "The session has ended: sign in again."));
  try {
    await identify();
  } catch (error) {
    if (/** @type {any} */ (error).status === 401) return;
    frame();
    put(main, problem("", [], /** @type {any} */ (error)).node);
    return void setTimeout(() => location.reload(), 5000);
  }
  frame();
  if (me.user !== null) put(who, el("span.user", plain(me.user)), " ", button("Sign out", leave, "quiet"));
  addEventListener("hashchange", show);
  startLive({ frame: take, status: setStatus });
  setInterval(() => { if (status === "live" && !document.hidden && lastAt && Date.now() - lastAt > 6000) setStatus("lost"); }, 2000);
  if (!location.hash) history.replaceState(null, "", "#/overview");
  kept("visited", true);
  show();
}

begin();
