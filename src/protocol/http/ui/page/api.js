// Requests to the server. Paths are relative: the page works behind any prefix.

import { read } from "./exact.js";
import { noteClock } from "./format.js";
import { encode, json } from "./text.js";

const BASE = new URL("../api/v1/", document.baseURI).href;

/** What the server has refused, and why. */
export class Problem extends Error {
  /** @param {number} status @param {string} title @param {string} detail */
  constructor(status, title, detail) {
    super(detail || title);
    this.status = status;
    this.title = title;
  }
}

/** Called when the server asks who we are. */
let signOut = () => {};

/** @param {() => void} act */
export const onUnauthorized = (act) => { signOut = act; };

/** @param {string} path below the API @param {Record<string, any>} [query] */
export function url(path, query = {}) {
  const parts = Object.entries(query).filter(([, value]) => value !== undefined && value !== null && value !== "");
  const text = parts.map(([name, value]) => `${name}=${encode(value)}`).join("&");
  return BASE + path + (text && `?${text}`);
}

/** The path of a queue; the one whose name is empty has none. @param {string} name */
export const queuePath = (name) => `queues/${encode(name)}`;

/**
 * @param {string} method @param {string} path @param {{query?: Record<string, any>, body?: any, raw?: string, headers?: Record<string, string>, signal?: AbortSignal, exact?: boolean}} [options]
 * `body` is JSON; `raw` is text that is JSON; `exact`: the answer is wanted as text, too.
 */
export async function call(method, path, { query, body, raw, headers = {}, signal, exact } = {}) {
  const content = raw ?? (body === undefined ? undefined : json(body));
  const response = await fetch(url(path, query), {
    method, signal, body: content, credentials: "same-origin",
    headers: content === undefined ? headers : { "Content-Type": "application/json", ...headers },
  }).catch((error) => {
    if (error.name === "AbortError") throw error;
    throw new Problem(0, "The server does not answer", "The server does not answer. Nothing is sent twice: try again when it is back.");
  });
  noteClock(response.headers.get("Date"));
  const text = await response.text();
  if (response.ok) return exact ? text : text === "" ? null : read(text);
  let problem = { title: `Status ${response.status}`, detail: text };
  try { problem = JSON.parse(text); } catch { /* It is from a proxy. */ }
  if (response.status === 401 && path !== "session") signOut();
  throw new Problem(response.status, problem.title, sentence(problem.detail));
}

/** @param {string | undefined} text */
const sentence = (text) => text ? text.charAt(0).toUpperCase() + text.slice(1) + (/[.!?]$/.test(text) ? "" : ".") : "";

/** @param {string} path @param {Record<string, any>} [query] @param {AbortSignal} [signal] */
export const get = (path, query, signal) => call("GET", path, { query, signal });

/** @param {string} path @param {any} [body] */
export const post = (path, body = {}) => call("POST", path, { body });

/** Who we are. @type {{user: string | null, permissions: string[]}} */
export const me = { user: null, permissions: [] };

/** Asks who we are. */
export async function identify() {
  Object.assign(me, await get("me"));
}

/** Whether we may do something, on a queue, or anywhere. @param {string} right @param {string} [queue] */
export function may(right, queue) {
  return me.permissions.some((permission) => {
    const [name, ...rest] = permission.split(":");
    if (name !== right) return false;
    const pattern = rest.join(":");
    if (!permission.includes(":") || pattern === "*" || queue === undefined) return true;
    return new RegExp(`^${pattern.split("*").map((part) => part.replace(/[\\^$.|?+()[\]{}]/g, "\\$&")).join(".*")}$`, "s").test(queue);
  });
}

/** Whether we may do something on all queues. @param {string} right */
export const mayEverywhere = (right) => me.permissions.includes(right) || me.permissions.includes(`${right}:*`);

/** Keeps a value in this browser. @param {string} name @param {any} [value] @returns {any} */
export function kept(name, value) {
  try {
    if (value !== undefined) localStorage.setItem(`jobcentre-${name}`, json(value));
    return JSON.parse(localStorage.getItem(`jobcentre-${name}`) ?? "null");
  } catch {
    return null;
  }
}

/** The histories of queues, asked for a few at a time and kept for a minute. */
const histories = new Map();
/** @type {(() => void)[]} */
const waiting = [];
let asking = 0;

/** The ready jobs of a queue over the last half an hour. @param {string} name @returns {Promise<number[]>} */
export async function readyHistory(name) {
  const known = histories.get(name);
  if (known && Date.now() - known.at < 60_000) return known.ready;
  if (asking >= 3) await new Promise((done) => waiting.push(() => done(null)));
  asking++;
  try {
    const { series } = await get(`${queuePath(name)}/history`, { step: "1m" });
    histories.set(name, { at: Date.now(), ready: series.ready });
    return series.ready;
  } finally {
    asking--;
    waiting.shift()?.();
    if (histories.size > 500) histories.delete(histories.keys().next().value);
  }
}
