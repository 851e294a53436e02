// The frame of the page: routes, keys, the bar above and the line below, signing in and out.

import { call, identify, me, onUnauthorized, parameters, refusal, remove } from "./api.js";
import { openConstraints } from "./constraints.js";
import { closeDialog, dialog, notice, stage, wordsOf } from "./dialog.js";
import { button, buttonLink, capital, el, field, go, iconButton, input, link, nothing, plain, put, say, shape, submit } from "./dom.js";
import { age, count, moment, now, quantile, share } from "./format.js";
import { openJob } from "./job.js";
import { retryLive, startLive, stopLive, watchQueues } from "./live.js";
import { openOverview, connected } from "./overview.js";
import { openPut } from "./put.js";
import { openQueue } from "./queue.js";
import { openQueues } from "./queues.js";
import { openSchedules } from "./schedules.js";
import { openSearch } from "./search.js";
import { openSystem } from "./system.js";
import { currentTable } from "./table.js";
import { openWorkers } from "./workers.js";
import { encode } from "./text.js";

/** @typedef {import("./list.js").Page} Page */

/** The entries of the bar, and the keys that lead there. @type {Record<string, string>} */
const NAV = { overview: "o", queues: "q", search: "s", workers: "w", schedules: "c", constraints: "l", system: "y" };

/** What opens a route. Those that are no entry of the bar belong to queues. @type {Record<string, (rest: string[], query: URLSearchParams, context: any) => Promise<Page>>} */
const ROUTES = { overview: openOverview, queues: openQueues, queue: openQueue, job: openJob, put: openPut, search: openSearch,
  workers: openWorkers, schedules: openSchedules, constraints: openConstraints, system: openSystem };

const KEYS = { "g o, q, s, w, c, l, y": "go to a page", "g p": "put a job", "/": "find", f: "filter", "j, k": "next row, row before", Enter: "open the row",
  "x, X": "choose the row, all up to it", r: "live on/off", t: "light, dark", Esc: "close", "?": "keys" };

/** The page that is shown. @type {Page | null} */
let shownPage = null;
let opened = 0;
let paused = false;
/** @type {import("./live.js").Status} */
let status = "waiting";
/** The last figures of the server, and those of the last minutes. @type {any[]} */
export const frames = [];
let lastAt = 0;

const main = el("main", { id: "main", tabindex: "-1" });
const nav = el("nav.nav", { "aria-label": "Pages" }, Object.keys(NAV).map((name) =>
  link(`#/${name}`, { "data-page": name }, el("span", { "data-label": capital(name) }, capital(name)))));
const who = el("span.who");
const lost = el(".lost-place");
/** A key on a button. @param {string} key */
const kbd = (key) => el("kbd", { "aria-hidden": "true" }, key);
const said = { live: el("span", "Connecting"), at: el("b"), busy: el("b"), p99: el("b"), sync: el("b"), connections: el("b"), actions: el("span.p3") };
const foot = el("footer.status", el("span.live", { role: "status" }, el("span.dot"), said.live), el("span", "as of ", said.at, " UTC"), el("span.p2", "loop ", said.busy, " busy"),
  el("span.p3", "answers p99 ", said.p99), el("span.p3", "sync p99 ", said.sync), el("span.p2", "connections ", said.connections), said.actions,
  el("span.p2 push", button([kbd("r"), " live on/off"], () => pause(!paused), "quiet"), button([kbd("?"), " keys"], keys, "quiet")));

/** The logo and the name of the stage. */
const brand = () => link("#/overview", { class: "brand" }, shape("logo", 20, "M3 5h9M3 10h6M3 15h9M13 8v4l3-2Z"), "jobcentre", stage && el("span.env", plain(stage)));

/** @param {string} title */
const setTitle = (title) => { document.title = [plain(title), stage, "jobcentre"].filter(Boolean).join(" · "); };

/** Shows the frame of the pages. */
function frame() {
  document.body.append(link("#main", { class: "skip", onclick: (/** @type {Event} */ event) => { event.preventDefault(); main.focus(); } }, "Skip to content"),
    el("header.top", brand(), nav, el(".top-end", button([shape("icon", 16, "M7 2a5 5 0 1 0 .01 0ZM11 11l3 3"), el("span", "Queue or job id"), kbd("/")], find, "find"),
      iconButton("◐", "Switch between light and dark", theme), who)), el(".under-top", lost), main, foot);
}

/** Shows the page that the address names. */
async function show() {
  const number = ++opened, [path, text] = location.hash.replace(/^#\/?/, "").split("?");
  const [name, ...rest] = (path || "overview").split("/").map((part) => { try { return decodeURIComponent(part); } catch { return part; } });
  const open = Object.hasOwn(ROUTES, name) ? ROUTES[name] : null;
  closeDialog?.();
  for (const node of nav.children) {
    const is = open && node.dataset.page === (name in NAV ? name : "queues");
    if (is) node.scrollIntoView({ block: "nearest", inline: "center" });
    node.ariaCurrent = is ? "page" : null;
  }
  /** @type {Page} */
  let next;
  try {
    if (!open) throw refusal(404, "There is no such page", "");
    next = await open(rest, new URLSearchParams(text), { reopen: show, frames });
  } catch (error) {
    next = problem(name, rest, /** @type {any} */ (error));
  }
  if (number !== opened) return;
  shownPage = next;
  setTitle(next.title);
  put(main, next.node);
  document.body.classList.remove("sel");
  watchQueues(next.queues ?? []);
  if (frames.length) next.frame?.("overview", frames[frames.length - 1]);
  shut();
}

/** A page about what is not there. @param {string} name @param {string[]} rest @param {Error & {status?: number, title?: string}} error @returns {Page} */
function problem(name, [what], error) {
  const gone = name === "job" && error.status === 410;
  const title = gone ? "This job is not here any more" : error.status === 403 ? "You may not see this" : error.title ?? "Something went wrong";
  const text = gone ? `Job ${what} has been completed, deleted or cancelled, or it has expired.` : error.message;
  return { title, node: el("div", el(".head", el("h1", what ?? title)), nothing(title, plain(text), [buttonLink("#/queues", "All queues"), button("Try again", show, "quiet")])) };
}

/** Does what the page does every few seconds. @param {Page} page */
function doDue(page) {
  page.seconds = (page.seconds ?? 0) + 1;
  if (document.querySelector("dialog[open]")) return;
  for (const [each, act] of Object.entries(page.every ?? {})) if (page.seconds % Number(each) === 0) Promise.resolve(act(true)).catch(() => {});
}

/** @param {string} event @param {any} data */
function take(event, data) {
  if (event === "overview") {
    const before = frames[frames.length - 1];
    data.at = +now();
    data.begun = data.at - data.uptime_ms;
    if (data.begun - before?.begun > 1500) {
      frames.length = 0;
      put(lost, notice("info", "reserved", "The server was started anew", `${age(data.uptime_ms)} ago.`));
      refresh();
    }
    frames.push(data);
    if (frames.length > 900) frames.shift();
    lastAt = Date.now();
    line(data);
  }
  if (paused || !shownPage) return;
  shownPage.frame?.(event, data);
  if (event === "overview") doDue(shownPage);
}

/** Asks anew for what the page shows. */
const refresh = () => Promise.resolve(shownPage?.refresh?.()).catch(() => {});

/** The frame that is about a minute old. */
const minuteAgo = () => frames[Math.max(0, frames.length - 61)];

/** The line below. @param {any} data */
function line(data) {
  if (paused) return;
  const before = frames.length > 1 ? minuteAgo() : undefined;
  /** @param {any} later @param {any} earlier */
  const p99 = (later, earlier) => {
    const found = later && quantile(later, earlier, 0.99);
    return found ? age(found / 1e6) : "–";
  };
  say(said.at, moment(data.at));
  say(said.busy, share(data.loop.busy_millionths / 1e6));
  say(said.p99, p99(data.answered_ns, before?.answered_ns));
  said.sync.parentElement.hidden = !data.journal;
  say(said.sync, p99(data.journal?.synced_ns, before?.journal?.synced_ns));
  say(said.connections, count(connected(data)));
}

/** What an action that is under way has done so far. @param {string} text */
export const doing = (text) => say(said.actions, text);

/** What is said of the connection. */
const WORDS_OF_STATUS = { lost: "Not connected", polling: "Every 5 s", live: "Live", waiting: "Connecting" };

/** @type {HTMLElement | null} */
let lostNotice = null;

/** @param {import("./live.js").Status} next */
function setStatus(next) {
  const was = status, isLost = next === "lost";
  status = next;
  foot.classList.toggle("lost", isLost || paused);
  say(said.live, paused && !isLost ? "Paused" : WORDS_OF_STATUS[status]);
  document.body.classList.toggle("stale", isLost);
  if (status === was) return;
  if (status === "waiting") identify().catch(() => {});
  lostNotice?.remove();
  lostNotice = isLost ? notice("", "stuck", "The server does not answer.", `What you see is from ${frames.length ? moment(frames[frames.length - 1].at) : "before"} UTC. What changes something is off until it is back.`,
    [button("Try now", retryLive)]) : null;
  if (lostNotice) put(lost, lostNotice);
  // A session may have ended with the server.
  const check = () => status === "lost" && setTimeout(() => identify().then(retryLive, check), 3000);
  check();
  if (was === "lost") refresh();
  shut();
}

/** Switches off what changes something while the server is away. */
export function shut() {
  for (const control of /** @type {NodeListOf<HTMLButtonElement>} */ (document.querySelectorAll("[data-changes]"))) {
    if (status === "lost" ? control.disabled : !control.dataset.shut) continue;
    control.disabled = status === "lost";
    control.dataset.shut = control.disabled ? "1" : "";
  }
}

/** @param {boolean} on */
function pause(on) {
  paused = on;
  setStatus(status);
  if (paused) return;
  refresh();
  if (frames.length) line(frames[frames.length - 1]);
}

function theme() {
  const root = document.documentElement;
  root.dataset.theme = (root.dataset.theme ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "")) === "dark" ? "light" : "dark";
  try { localStorage.setItem("jobcentre-theme", root.dataset.theme); } catch { /* Nothing is kept in this mode. */ }
}

function keys() {
  dialog("Keys", [el("dl.kv", Object.entries(KEYS).map(([key, text]) => el("div", el("dt", key.split(/([, ]+)/).map((part, at) => at % 2 ? part : el("kbd", part))), el("dd", text))))]);
}

/** Asks for a queue or a job. */
function find() {
  const text = input("", { placeholder: "mail.digest, or 48211985" });
  dialog("Find", [field("Queue or job id", text, el("p.hint", "The id of a job, or the begin of a queue's name."))], { verb: "Open", act: () => {
    const wanted = text.value.trim();
    if (!wanted) return false;
    if (/^\d+$/.test(wanted)) return go(`#/job/${wanted}`);
    // A queue of just this name is opened itself.
    return call("GET", `queues/${encode(wanted)}`).then(() => go(`#/queue/${encode(wanted)}`), () => go(`#/queues${parameters({ match: wanted })}`));
  } });
}

let prefix = 0;
addEventListener("keydown", (event) => {
  const { key } = event, target = /** @type {HTMLElement} */ (event.target);
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (target.closest("input:not([type=checkbox]), textarea, select")) {
    if (key === "Escape") target.blur();
    return;
  }
  if (document.querySelector("dialog[open]") || document.body.classList.contains("signed-out")) return;
  const table = currentTable(), isAfter = Date.now() - prefix < 1500;
  const to = isAfter && Object.keys({ ...NAV, put: "" }).find((name) => key === (NAV[name] ?? "p"));
  prefix = 0;
  if (to) go(`#/${to}`);
  else if (key === "g") prefix = Date.now();
  else if (key === "/") find();
  else if (key === "f") main.querySelector("input[type=search]")?.focus();
  else if (key === "j" || key === "k") table?.step(key === "j" ? 1 : -1);
  else if (key === "x" || key === "X") table?.toggle(event.shiftKey);
  else if (key === "Enter" && !target.closest("a, button, input")) table?.open();
  else if (key === "Escape") table?.clear();
  else if (key === "r") pause(!paused);
  else if (key === "t") theme();
  else if (key === "?") keys();
  else return;
  event.preventDefault();
});

/** The page on which a token is exchanged for a session. @param {string} [why] */
function signIn(why) {
  if (document.body.classList.contains("signed-out")) return;
  stopLive();
  shownPage = null;
  const token = input("", { id: "token", type: "password", autocomplete: "current-password" });
  const wrong = el("p.hint bad", { role: "alert" }, why);
  const send = async (/** @type {Event} */ event) => {
    event.preventDefault();
    try {
      await call("POST", "session", { headers: { Authorization: `Bearer ${token.value.trim()}` } });
      location.reload();
    } catch (error) {
      token.setAttribute("aria-invalid", "true");
      wrong.textContent = /** @type {any} */ (error).status === 401 ? "This token is not known here, or it has ended." : wordsOf(error);
      token.focus();
    }
  };
  document.body.classList.add("signed-out");
  setTitle("Sign in");
  put(document.body, el("main.alone", brand(), el("h1", "Sign in"), el("form.form", { onsubmit: send }, field("Token", token, wrong), submit("Sign in")),
    el("aside", "An administrator makes one with ", el("code", "jobcentre user add"), ". It is not kept in this browser.")));
  token.focus();
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
  if (me.user !== null) put(who, el("span.user", plain(me.user)), button("Sign out", () => remove("session").catch(() => {}).then(() => signIn()), "quiet"));
  addEventListener("hashchange", show);
  startLive({ frame: take, status: setStatus });
  setInterval(() => { if (status === "live" && !document.hidden && lastAt && Date.now() - lastAt > 6000) setStatus("lost"); }, 2000);
  if (!location.hash) history.replaceState(null, "", "#/overview");
  show();
}

begin();
