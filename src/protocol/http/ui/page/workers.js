// Workers and connections.

import { call, get, may } from "./api.js";
import { attempt, confirm } from "./dialog.js";
import { el, iconButton, input, link, plain, put, queueLink, section, shown, svg } from "./dom.js";
import { age, bytes, count, many, since } from "./format.js";
import { isPaused } from "./main.js";
import { protocolName } from "./overview.js";
import { figure, table } from "./table.js";

const SLOTS = 16;

/** Places of a worker, and which are in use. @param {number} used @param {number} all */
function slots(used, all) {
  const shownSlots = Math.min(all, SLOTS);
  return svg("svg", { width: 112, height: 12, "aria-hidden": "true" }, ...Array.from({ length: shownSlots }, (_, at) =>
    svg("rect", { class: at < Math.ceil(used / Math.max(1, all) * shownSlots) ? "b accent" : "b rest", x: at * 7, y: 0, width: 5, height: 12 })));
}

/** @param {string[]} _rest @param {URLSearchParams} query */
export async function openWorkers(_rest, query) {
  const wanted = query.get("protocol") ?? "", text = query.get("peer") ?? "", cursor = query.get("cursor") ?? "";
  const place = el("div"), foot = el("div", { class: "foot-line" }), meta = el("p", { class: "meta" }), figures = el("dl", { class: "figs four" }), empty = el("p", { class: "dim" });
  const workers = table({ label: "Workers", kind: "fixed", id: (row) => String(row.id), columns: [
    { label: "Name", kind: "name w-5", cell: (row) => el("span", {}, ...shown(row.name ?? `worker ${row.id}`)), mark: (row) => row.name },
    { label: "Address", kind: "mono grow soft p2", cell: (row) => el("span", {}, ...shown(row.url ?? "standard input")), mark: (row) => row.url ?? "" },
    { label: "Queues", kind: "cut p2 w-6", cell: (row) => row.queues ? el("span", {}, ...row.queues.flatMap((/** @type {string} */ name, /** @type {number} */ at) => [at ? ", " : "", queueLink(name)])) : "any", mark: (row) => String(row.queues) },
    { label: "Places", kind: "w-4 p3", cell: (row) => slots(row.reserved, row.max_jobs ?? 1), mark: (row) => `${row.reserved}/${row.max_jobs}` },
    figure("In use", (row) => `${row.reserved} of ${row.max_jobs ?? 1}`, { kind: "w-3" })] });
  const closable = may("admin");
  const connections = table({ label: "Connections", kind: "fixed", id: (row) => String(row.id), columns: [
    { label: "Id", kind: "w-2 p2", cell: (row) => String(row.id) },
    { label: "Protocol", kind: "w-3", cell: (row) => protocolName(row.protocol) },
    { label: "Peer", kind: "mono grow", cell: (row) => el("span", {}, ...shown(row.peer ?? "–")), mark: (row) => row.peer ?? "" },
    figure("Since", (row) => age(since(row.since)), { kind: "w-2 p2" }), { label: "", kind: "w-3 p2", cell: (/** @type {any} */ row) => row.waiting ? "waits" : "" },
    figure("Reserved", (row) => count(row.reserved), { kind: "w-2" }), figure("Unsent", (row) => row.unsent_bytes ? bytes(row.unsent_bytes) : "0", { kind: "w-2 p3" }),
    ...closable ? [{ label: "", kind: "more", cell: (/** @type {any} */ row) => iconButton("close", `Close connection ${row.id}`, () => close(row), { "data-changes": true }), mark: () => "x" }] : []] });
  const close = (/** @type {any} */ row) => confirm(`Close connection ${row.id}?`, `${plain(row.peer ?? "Its client")} is cut off, what is unsent is dropped, and its ${many(row.reserved, "job")} go back to their queues.`, "Close it",
    () => attempt(place, "It was not closed.", async () => { await call("DELETE", `connections/${row.id}`); await load(); }), { keep: "Keep it" });

  /** @param {boolean} [inPlace] */
  async function load(inPlace) {
    const [all, open] = await Promise.all([get("workers", { limit: 200 }), get("connections", { limit: 100, cursor })]);
    workers.set(all.items, inPlace);
    say(all.items.length);
    const rows = open.items.filter((/** @type {any} */ row) => (!wanted || row.protocol === wanted) && (!text || (row.peer ?? "").includes(text)));
    connections.set(rows, inPlace);
    put(foot, el("span", {}, `${many(rows.length, "connection")} on this page`), (cursor || open.next_cursor) && el("span", { class: "push" }), cursor && link("#/workers", { class: "btn" }, "First page"), open.next_cursor && link(`#/workers?cursor=${encodeURIComponent(open.next_cursor)}`, { class: "btn" }, "Next page"));
  }
  const say = (/** @type {number} */ number) => { empty.textContent = number ? "" : "None. A worker of LightJQ registers itself by POST /worker, and is called; others connect and reserve."; };
  const filter = input({ type: "search", class: "filter", value: text, "aria-label": "Addresses of peers", placeholder: "Peer: 10.4.0", onkeydown: (/** @type {KeyboardEvent} */ event) => { if (event.key === "Enter") location.hash = `#/workers?peer=${encodeURIComponent(filter.value)}&protocol=${wanted}`; } });
  const kinds = [["", "All"], ["job-centre", "Job Centre"], ["http", "HTTP"], ["beanstalkd", "beanstalkd"], ["pinpriq", "Pinpriq"]];
  await load();
  let seconds = 0;
  const first = section("Registered workers", "the server calls them, or they come by the processor", workers.node, empty);
  return {
    title: "Workers", node: el("div", {}, el("div", { class: "head" }, el("h1", {}, "Workers"), meta), place, figures, first,
      section("Connections", "", el("div", { class: "bar loose" }, filter, el("div", { class: "seg", role: "group", "aria-label": "Protocol" }, ...kinds.map(([value, name]) =>
        el("button", { type: "button", "aria-pressed": String(wanted === value), onclick: () => { location.hash = `#/workers?protocol=${value}&peer=${encodeURIComponent(text)}`; } }, name)))), connections.node, foot)),
    frame(/** @type {string} */ event, /** @type {any} */ data) {
      if (event !== "overview" || isPaused()) return;
      const open = Object.entries(data.connections).filter(([, number]) => number).slice(0, 4);
      meta.textContent = many(Object.values(data.connections).reduce((/** @type {number} */ sum, /** @type {any} */ number) => sum + number, 0), "connection");
      if (figures.children.length !== open.length) put(figures, ...open.map(([name]) => el("div", {}, el("dt", {}, protocolName(name)), el("dd", { class: "num" }), el("dd", { class: "note" }, "open connections"))));
      for (const [at, [, number]] of open.entries()) figures.children[at].children[1].textContent = count(/** @type {number} */ (number));
      if (++seconds % 3 === 0) load(seconds % 9 !== 0).catch(() => {});
    },
    refresh: () => load(),
  };
}


