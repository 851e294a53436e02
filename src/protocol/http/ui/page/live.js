// Live figures: one event stream for all tabs of a browser. One tab leads: it has the stream and
// tells the others what comes. When it is hidden or closed the next one takes over; when no tab is
// visible there is no stream. Where the browser has no locks (pages that came without TLS from
// another machine), each visible tab has a stream of its own.

import { url } from "./api.js";

/** @typedef {"live" | "lost" | "polling" | "waiting"} Status */

const TAB = Math.random().toString(36).slice(2);
const NAME = `jobcentre-live:${url("")}`;
const channel = "BroadcastChannel" in globalThis ? new BroadcastChannel(NAME) : null;

/** What the tabs want, and when they have said so last. @type {Map<string, {topics: string[], at: number}>} */
const wants = new Map();
/** @type {string[]} */
let own = ["overview"];
/** @type {EventSource | null} */
let source = null;
let streamed = "";
/** @type {(() => void) | null} */
let resign = null;
/** @type {AbortController | null} */
let candidacy = null;
let timer = 0;
let polls = 0;

/** What the page does with it. @type {{frame: (event: string, data: any) => void, status: (status: Status) => void}} */
let handlers = { frame: () => {}, status: () => {} };

/** @param {any} message */
function tell(message) {
  channel?.postMessage({ tab: TAB, ...message });
  receive({ tab: TAB, ...message });
}

/** @param {any} message */
function receive(message) {
  if (message.want) {
    wants.set(message.tab, { topics: message.want, at: Date.now() });
    if (resign) planStream();
  }
  if (message.hello && !document.hidden) tellWants();
  if (message.event) handlers.frame(message.event, message.data);
  if (message.status) handlers.status(message.status);
}

const tellWants = () => channel?.postMessage({ tab: TAB, want: document.hidden ? [] : own });

/** The topics of all tabs that are there. */
function topics() {
  const all = new Set(["overview"]);
  for (const [tab, want] of wants) {
    if (tab !== TAB && Date.now() - want.at > 40_000) wants.delete(tab);
    else for (const topic of want.topics) all.add(topic);
  }
  return [...all].slice(0, 16).join(",");
}

/** Opens the stream anew if other topics are wanted, soon. */
function planStream() {
  clearTimeout(timer);
  timer = setTimeout(() => {
    if (resign && topics() !== streamed) stream();
  }, source ? 150 : 0);
}

function stream() {
  source?.close();
  streamed = topics();
  const opened = source = new EventSource(url("stream", { topics: streamed }));
  for (const event of ["overview", "queue"]) {
    opened.addEventListener(event, (message) => {
      polls = 0;
      tell({ event, data: JSON.parse(message.data), status: "live" });
    });
  }
  opened.onerror = () => {
    if (source !== opened) return;
    tell({ status: "lost" });
    // A browser gives up where the server has answered with an error.
    if (opened.readyState === EventSource.CLOSED) poll();
  };
}

/** Asks every few seconds while there is no place for a stream. */
async function poll() {
  if (!resign) return;
  const response = await fetch(url("server"), { credentials: "same-origin" }).catch(() => null);
  if (response?.status === 401) return tell({ status: "waiting" });
  if (response?.ok) tell({ event: "overview", data: await response.json(), status: "polling" });
  clearTimeout(timer);
  timer = setTimeout(() => ++polls % 6 && response?.ok ? poll() : stream(), 5000);
}

/** Leads until it is to stop. */
function lead() {
  return new Promise((done) => {
    resign = () => {
      resign = null;
      clearTimeout(timer);
      source?.close();
      source = null;
      streamed = "";
      done(null);
    };
    wants.clear();
    wants.set(TAB, { topics: own, at: Date.now() });
    channel?.postMessage({ tab: TAB, hello: true });
    stream();
  });
}

/** Stands for the lead, or stops, as the tab is visible or hidden. */
function update() {
  tellWants();
  if (document.hidden) {
    candidacy?.abort();
    candidacy = null;
    resign?.();
    return;
  }
  if (candidacy) return;
  const stands = candidacy = new AbortController();
  if (navigator.locks && channel) {
    navigator.locks.request(NAME, { signal: stands.signal }, lead).catch(() => {});
  } else {
    lead();
  }
}

/** Begins. @param {typeof handlers} theirs */
export function startLive(theirs) {
  handlers = theirs;
  channel?.addEventListener("message", (message) => receive(message.data));
  document.addEventListener("visibilitychange", update);
  addEventListener("pagehide", () => {
    channel?.postMessage({ tab: TAB, want: [] });
    resign?.();
  });
  addEventListener("pageshow", (event) => { if (event.persisted) { candidacy = null; update(); } });
  setInterval(() => { if (!document.hidden) tellWants(); }, 15_000);
  update();
}

/** Ends the stream of this tab, for good. */
export function stopLive() {
  candidacy?.abort();
  resign?.();
}

/** Tries to connect at once. */
export function retryLive() {
  if (resign) stream();
  else channel?.postMessage({ tab: TAB, hello: true });
}

/** The queues that this tab shows. @param {string[]} queues */
export function watchQueues(queues) {
  own = ["overview", ...queues.filter((name) => name !== "" && !name.includes(",")).map((name) => `queue:${name}`)];
  wants.set(TAB, { topics: own, at: Date.now() });
  tellWants();
  if (resign) planStream();
}
