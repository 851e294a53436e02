// Workers and connections.

import { call, get, may } from "./api.js";
import { attempt, confirm } from "./dialog.js";
import { buttonLink, el, iconButton, input, plain, put, queueLink, section, shown, svg } from "./dom.js";
import { age, bytes, count, many, since } from "./format.js";
import { isPaused } from "./main.js";
import { protocolName } from "./overview.js";
import { column, figure, table } from "./table.js";
import { encode } from "./text.js";

const SLOTS = 16;

/** Places of a worker, and which are in use. @param {number} used @param {number} all */
function slots(used, all) {
  const shownSlots = Math.min(all, SLOTS);
  return svg("svg", { width: 112, height: 12 }, ...Array.from({ length: shownSlots }, (_, at) =>
    svg("rect", { class: at < Math.ceil(used / Math.max(1, all) * shownSlots) ? "b accent" : "b rest", x: at * 7, y: 0, width: 5, height: 12 })));
}

/** @param {string[]} _rest @param {URLSearchParams} query */
export async function openWorkers(_rest, query) {
  const wanted = query.get("protocol") ?? "", text = query.get("peer") ?? "", cursor = query.get("cursor") ?? "";
  const place = el("div"), foot = el(".foot-line"), meta = el("p.meta"), figures = el("dl.figs four"), empty = el("p.dim");
  const workers = table({ label: "Workers", kind: "fixed", id: (row) => String(row.id), columns: [
    column("name w-5", "Name", (row) => shown(row.name ?? `worker ${row.id}`)),
    column("mono grow soft p2", "Address", (row) => shown(row.url ?? "standard input")),
    column("cut p2 w-6", "Queues", (row) => row.queues ? el("span", ...row.queues.flatMap((/** @type {string} */ name, /** @type {number} */ at) => [at ? ", " : "", queueLink(name)])) : "any"),
    column("w-4 p3", "Places", (row) => slots(row.reserved, row.max_jobs ?? 1), { mark: (row) => `${row.reserved}/${row.max_jobs}` }),
    figure("w-3", "In use", (row) => `${row.reserved} of ${row.max_jobs ?? 1}`)] });
  const closable = may("admin");
  const connections = table({ label: "Connections", kind: "fixed", id: (row) => String(row.id), columns: [
    column("w-2 p2", "Id", (row) => String(row.id)),
    column("w-3", "Protocol", (row) => protocolName(row.protocol)),
    column("mono grow", "Peer", (row) => shown(row.peer ?? "–")),
    column("cut w-3 p3", "User", (row) => shown(row.user ?? "–")),
    figure("w-2 p2", "Since", (row) => age(since(row.since))), column("w-3 p2", "", (/** @type {any} */ row) => row.waiting ? "waits" : ""),
    figure("w-2", "Reserved", (row) => count(row.reserved)), figure("w-2 p3", "Unsent", (row) => row.unsent_bytes ? bytes(row.unsent_bytes) : "0"),
    ...closable ? [column("more", "", (/** @type {any} */ row) => iconButton("close", `Close connection ${row.id}`, () => close(row), { "data-changes": true }))] : []] });
  const close = (/** @type {any} */ row) => confirm(`Close connection ${row.id}?`, `${plain(row.peer ?? "Its client")} is cut off, what is unsent is dropped, and its ${many(row.reserved, "job")} go back to their queues.`, "Close it",
    () => attempt(place, "It was not closed.", async () => { await call("DELETE", `connections/${row.id}`); await load(); }), { keep: "Keep it" });

  /** @param {boolean} [inPlace] */
  async function load(inPlace) {
    const [all, open] = await Promise.all([get("workers", { limit: 200 }), get("connections", { limit: 100, cursor })]);
    workers.set(all.items, inPlace);
    say(all.items.length);
    const rows = open.items.filter((/** @type {any} */ row) => (!wanted || row.protocol === wanted) && (!text || (row.peer ?? "").includes(text)));
    connections.set(rows, inPlace);
    put(foot, el("span", `${many(rows.length, "connection")} on this page`), (cursor || open.next_cursor) && el("span.push"), cursor && buttonLink("#/workers", "First page"), open.next_cursor && buttonLink(`#/workers?cursor=${encode(open.next_cursor)}`, "Next page"));
  }
  const say = (/** @type {number} */ number) => { empty.textContent = number ? "" : "None. A worker of LightJQ registers itself by POST /worker, and is called; others connect and reserve."; };
  const filter = input("filter", { type: "search", value: text, "aria-label": "Addresses of peers", placeholder: "Peer: 10.4.0", onkeydown: (/** @type {KeyboardEvent} */ event) => { if (event.key === "Enter") location.hash = `#/workers?peer=${encode(filter.value)}&protocol=${wanted}`; } });
  const kinds = [["", "All"], ["job-centre", "Job Centre"], ["http", "HTTP"], ["beanstalkd", "beanstalkd"], ["pinpriq", "Pinpriq"]];
  await load();
  let seconds = 0;
  const first = section("Registered workers", "the server calls them, or they come by the processor", workers.node, empty);
  return {
    title: "Workers", node: el("div", el(".head", el("h1", "Workers"), meta), place, figures, first,
      section("Connections", "", el(".bar loose", filter, el(".seg", { role: "group", "aria-label": "Protocol" }, ...kinds.map(([value, name]) =>
        el("button", { type: "button", "aria-pressed": String(wanted === value), onclick: () => { location.hash = `#/workers?protocol=${value}&peer=${encode(text)}`; } }, name)))), connections.node, foot)),
    frame(/** @type {string} */ event, /** @type {any} */ data) {
      if (event !== "overview" || isPaused()) return;
      const open = Object.entries(data.connections).filter(([, number]) => number).slice(0, 4);
      meta.textContent = many(Object.values(data.connections).reduce((/** @type {number} */ sum, /** @type {any} */ number) => sum + number, 0), "connection");
      if (figures.children.length !== open.length) put(figures, ...open.map(([name]) => el("div", el("dt", protocolName(name)), el("dd.num"), el("dd.note", "open connections"))));
      for (const [at, [, number]] of open.entries()) figures.children[at].children[1].textContent = count(/** @type {number} */ (number));
      if (++seconds % 3 === 0) load(seconds % 9 !== 0).catch(() => {});
    },
    refresh: () => load(),
  };
}


