// Workers and connections.

import { may, parameters } from "./api.js";
import { el, figures, go, plain, queueLink, section, segments, words } from "./dom.js";
import { apart, count, many } from "./format.js";
import { filter, list, page, removal } from "./list.js";
import { connected } from "./overview.js";
import { ending } from "./table.js";

const KINDS = ["job-centre", "http", "beanstalkd", "pinpriq"];

/** @param {string[]} _rest @param {URLSearchParams} query */
export async function openWorkers(_rest, query) {
  const { protocol = "", peer = "", cursor } = Object.fromEntries(query);
  const to = (/** @type {any} */ change) => go(`#/workers${parameters({ protocol, peer, ...change })}`);
  const row = figures("four", "Connections", KINDS.map((kind) => ["", words(kind)]));
  const workers = list("workers", { limit: 200 }, { label: "Workers", one: "worker", none: "None. Workers of LightJQ register by POST /worker; others connect and reserve.", columns: [
    ["name w-5", "Name", "name"],
    ["mono grow soft p2", "Address", (row) => plain(row.url ?? "standard input")],
    ["p2 w-6", "Queues", (row) => row.queues ? row.queues.flatMap((/** @type {string} */ name, /** @type {number} */ at) => [at ? ", " : "", queueLink(name)]) : "any"],
    ["w-4 p3", "Places", (row) => el("progress", { value: row.reserved, max: row.max_jobs ?? 1, "aria-label": "Places in use" }), { mark: (row) => `${row.reserved}/${row.max_jobs}` }],
    ["r w-2 p2", "Last job", (row) => apart(row.last_reserved_at)],
    ["r w-3", "In use", (row) => `${row.reserved} of ${row.max_jobs ?? 1}`]] });
  const connections = list("connections", { limit: 100, cursor }, { label: "Connections", one: "connection", none: "No connection.", here: ["#/workers", { protocol, peer }],
    pick: (items) => items.filter((one) => (!protocol || one.protocol === protocol) && (one.peer ?? "").includes(peer)),
    tools: [filter("Addresses of peers", "Peer: 10.4.0", peer, (text) => to({ peer: text })), segments("Protocol", [["", "All"], ...KINDS.map((kind) => /** @type {[string, string]} */ ([kind, words(kind)]))], protocol, (value) => to({ protocol: value }))],
    columns: [
      ["w-2 p2", "Id", (row) => String(row.id)], ["w-3", "Protocol", (row) => words(row.protocol)], ["mono grow", "Peer", "peer"], ["w-3 p3", "User", "user"],
      ["r w-2 p2", "Since", (row) => apart(row.since)], ["w-3 p2", "", (row) => row.waiting && "waits"], ["r w-2", "Reserved", "reserved"], ["r w-2 p3", "Unsent", "unsent_bytes"],
      may("admin") && ending((row) => `Close connection ${row.id}`, (row) => removal(`Close connection ${row.id}`, `${plain(row.peer ?? "Its client")} is cut off, what is unsent is dropped, and its ${many(row.reserved)} go back to their queues.`, `connections/${row.id}`, connections.load))] });
  await Promise.all([workers.load(), connections.load()]);
  return page("Workers", {}, { refresh: () => Promise.all([workers.load(), connections.load()]), every: { 3: workers.load, 9: connections.load },
    frame(event, data) {
      if (event === "overview") for (const [at, kind] of KINDS.entries()) row.say(at, count(data.connections[kind]), at ? "" : `of ${count(connected(data))} connections`);
    } }, row.node, section("Registered workers", "", workers.node), section("Connections", "", connections.node));
}
