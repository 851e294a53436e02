// The server itself: what it was started with, its memory and journal, actions under way.

import { call, get, may, me, post, url } from "./api.js";
import { attempt, confirm } from "./dialog.js";
import { capital, changing, el, facts, iconButton, link, plain, put, queueLink, section, shown } from "./dom.js";
import { age, bytes, count, moment, share } from "./format.js";
import { isPaused } from "./main.js";
import { protocolName } from "./overview.js";
import { column, figure, table } from "./table.js";

export async function openSystem() {
  let server = await get("server");
  const place = el("div"), columns = el(".system"), buttons = el(".actions push"), empty = el("p.dim");
  const actions = table({ label: "Actions", kind: "fixed", id: (row) => String(row.id), columns: [
    column("w-2", "Id", (row) => String(row.id)),
    column("grow", "What", (row) => el("span", `${capital(row.do)}${row.dry_run ? ", dry run" : ""} in `, queueLink(row.queue))),
    column("w-3", "State", (row) => el("span", { title: row.error ?? "" }, ...shown(row.state)), { tone: (row) => row.state === "failed" ? "bad" : "" }),
    figure("w-2", "Done", (row) => count(row.done)), figure("w-2 p2", "Matched", (row) => count(row.matched)), figure("w-4 p2", "Begun, UTC", (row) => moment(row.started_at)),
    column("more", "", (row) => row.state === "running" ? iconButton("close", `Cancel action ${row.id}`, () => attempt(place, "It was not cancelled.", () => call("DELETE", `actions/${row.id}`)), { "data-changes": true }) : "", { mark: (row) => row.state })] });
  async function list() {
    const { items } = await get("actions", { limit: 50 });
    actions.set(items);
    empty.textContent = items.length ? "" : "None since the start. An action does something to all jobs that match: see Search, and the tabs of a queue.";
  }
  function show() {
    const { memory, journal, limits } = server;
    put(columns,
      facts("Server", [["Version", server.version], ["Up", age(server.uptime_ms)], ["Jobs", count(server.jobs)], ["Queues", count(server.queues)], ["Waiting consumers", count(server.waiting_consumers)], ["New jobs", server.draining ? el("span.warn", "refused: draining") : "taken"]]),
      facts("Loop", [["Busy", share(server.loop.busy_millionths / 1e6)], ["Longest pass", age(server.loop.longest_pass_ns / 1e6)]]),
      facts("Memory", [["Jobs", bytes(memory.jobs_bytes)], ["Buffers", bytes(memory.buffers_bytes)], ["Process", bytes(memory.resident_bytes)], ["Limit", limits.max_memory ? bytes(limits.max_memory) : "none"], ["Puts refused", count(memory.refused)]]),
      journal ? facts("Journal", [["Live", bytes(journal.live_bytes)], ["On disk", bytes(journal.total_bytes)], ["Segments", count(journal.segments)], ["Records", count(journal.records)], ["Longest sync", age(journal.sync_max_ns / 1e6)], ["Disk", journal.full ? el("span.bad", "full: puts are refused") : "has space"]])
        : facts("Journal", [["Jobs", "in memory only"], ["To keep them", el("code", "--data DIR")]]),
      facts("Listeners", server.listeners.map((/** @type {any} */ one) => [protocolName(one.protocol), el("span.mono", plain(one.address))])),
      facts("Settings", [["Longest request", bytes(limits.max_request)], ["Clients", count(limits.max_clients)]]),
      facts("Since the start", Object.entries(server.totals).map(([name, number]) => [capital(name.replace(/_/g, " ")), count(/** @type {number} */ (number))])),
      facts("You", [["User", me.user === null ? "everybody: there are no users" : plain(me.user)], ["May", el("span.mono", me.permissions.map(plain).join(", "))]]));
    put(buttons, link("../metrics", { class: "btn quiet" }, "Metrics"), link("../openapi.json", { class: "btn quiet" }, "API"), may("peek") && link(url("export"), { class: "btn quiet", download: "jobs.ndjson" }, "Export all jobs"),
      may("admin") && (server.draining ? changing("Take jobs again", () => drain(false))
        : changing("Drain…", () => confirm("Refuse new jobs?", "Puts of all protocols are refused until you take jobs again, or the server is started anew. Everything else goes on.", "Drain", () => { drain(true); }, { keep: "Go on taking jobs" }))),
      may("admin") && server.journal && changing("Backup", backup));
  }
  const drain = (/** @type {boolean} */ on) => attempt(place, "It was not changed.", async () => { await post("server/drain", { on }); server = await get("server"); show(); });
  /** A link cannot post, and a page cannot write a file as it comes: the archive is in memory for a moment. */
  const backup = () => attempt(place, "There is no backup.", async () => {
    const response = await fetch(url("backup"), { method: "POST", credentials: "same-origin" });
    if (!response.ok) throw new Error((await response.json()).detail);
    const link_ = URL.createObjectURL(await response.blob());
    el("a", { href: link_, download: "jobcentre-backup.tar" }).click();
    setTimeout(() => URL.revokeObjectURL(link_), 60_000);
  });
  show();
  await list().catch(() => {});
  let seconds = 0;
  return {
    title: "System", refresh: list, node: el("div", el(".head", el("h1", "System"), el("p.meta", "times in UTC"), buttons), place, columns, section("Actions", "on many jobs, the last ones first", actions.node, empty)),
    frame(/** @type {string} */ event, /** @type {any} */ data) {
      if (event !== "overview" || isPaused()) return;
      const was = server.draining;
      server = data;
      if (++seconds % 2 === 0 || was !== data.draining) { if (!columns.contains(document.activeElement) && !buttons.contains(document.activeElement)) show(); list().catch(() => {}); }
    },
  };
}


