// Requests to the server. Paths are relative: the page works behind any prefix.

import { read } from "./exact.js";
import { noteClock } from "./format.js";
import { encode, json } from "./text.js";

const BASE = new URL("../api/v1/", document.baseURI).href;

/** What the server has refused, and why. @param {number} status @param {string} title @param {string} detail */
export const refusal = (status, title, detail) => Object.assign(new Error(detail), { status, title });

/** Called when the server asks who we are. */
let signOut = () => {};

/** @param {() => void} act */
export const onUnauthorized = (act) => { signOut = act; };

/** The parameters of an address; those without a value are left out. @param {Record<string, any>} values */
export function parameters(values) {
  const parts = Object.entries(values).filter(([, value]) => value || value === 0).map(([name, value]) => `${name}=${encode(value)}`);
  return parts.length ? `?${parts.join("&")}` : "";
}

/** @param {string} path below the API @param {Record<string, any>} [query] */
export const url = (path, query = {}) => BASE + path + parameters(query);

/** The path of a queue; the one whose name is empty has none. @param {string} name */
export const queuePath = (name) => `queues/${encode(name)}`;

/**
 * @param {string} method @param {string} path
 * @param {{query?: Record<string, any>, body?: any, headers?: Record<string, string>, exact?: boolean}} [options]
 * `body`: JSON as text, or what becomes JSON; `exact`: the answer is wanted as text.
 */
export async function call(method, path, { query, body, headers, exact } = {}) {
  const response = await fetch(url(path, query), {
    method, body: typeof body === "object" ? json(body) : body,
    headers: { ...body && { "Content-Type": "application/json" }, ...headers },
  }).catch(() => {
    throw refusal(0, "The server does not answer", "Nothing is sent twice: try again when it is back.");
  });
  noteClock(response.headers.get("Date"));
  const text = await response.text();
  if (response.ok) return exact ? text : text && read(text);
  let problem = { title: `Status ${response.status}`, detail: text };
  try { problem = JSON.parse(text); } catch { /* It is from a proxy. */ }
  if (response.status === 401 && path !== "session") signOut();
  const detail = problem.detail || problem.title;
  throw refusal(response.status, problem.title, `${detail.charAt(0).toUpperCase()}${detail.slice(1).replace(/[.]?$/, ".")}`);
}

/** @param {string} path @param {Record<string, any>} [query] */
export const request = (path, query) => call("GET", path, { query });

/** @param {string} path @param {any} [body] */
export const post = (path, body = {}) => call("POST", path, { body });

/** @param {string} path */
export const remove = (path) => call("DELETE", path);

/** Who we are. @type {{user: string | null, permissions: string[]}} */
export const me = { user: null, permissions: [] };

/** Asks who we are. */
export const identify = async () => Object.assign(me, await request("me"));

/** Whether we may do something, on a queue, or anywhere. @param {string} right @param {string} [queue] */
export function may(right, queue) {
  return me.permissions.some((permission) => {
    const [name, ...rest] = permission.split(":");
    if (name !== right) return false;
    if (!rest.length || queue === undefined) return true;
    const parts = rest.join(":").split("*").map((part) => part.replace(/[\\^$.|?+()[\]{}]/g, "\\$&"));
    return new RegExp(`^${parts.join(".*")}$`, "s").test(queue);
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
