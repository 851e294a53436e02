// The server itself: what it was started with, its memory and journal, actions under way.

import { request, may, me, post, remove, url } from "./api.js";
import { attempt, confirm } from "./dialog.js";
import { buttonLink, capital, changing, el, facts, plain, put, queueLink, save, section } from "./dom.js";
import { list, page } from "./list.js";
import { listeners, serverFacts } from "./overview.js";
import { ending } from "./table.js";

export async function openSystem() {
  let server = await request("server");
  const columns = el(".system"), buttons = el("span.actions");
  const actions = list("actions", { limit: 50 }, { label: "Actions", one: "action", none: "None since the start.", columns: [
    ["w-2", "Id", (row) => String(row.id)],
    ["grow", "What", (row) => [`${capital(row.do)}${row.dry_run ? ", dry run" : ""} in `, queueLink(row.queue)]],
    ["w-3", "State", (row) => el("span", { title: row.error }, plain(row.state)), { tone: (row) => row.state === "failed" && "bad" }],
    ["r w-2", "Done", "done"], ["r w-2 p2", "Matched", "matched"], ["r w-4 p2", "Begun, UTC", "started_at"],
    ending((row) => row.state === "running" && `Cancel action ${row.id}`, (row) => attempt(() => remove(`actions/${row.id}`)))] });

  function show() {
    put(columns, serverFacts(server, "loop", "memory", "journal", "limits", "connections", "totals"),
      listeners(server), facts("You", me));
    put(buttons, buttonLink("../metrics", "Metrics"), buttonLink("../openapi.json", "API"), may("peek") && buttonLink(url("export"), "Export all jobs", { download: "jobs.ndjson" }),
      may("admin") && (server.draining ? changing("Take jobs again", () => drain(false))
        : changing("Drain…", () => confirm("Refuse new jobs?", "Puts are refused until you take jobs again, or the server is started anew.", "Drain", () => drain(true)))),
      may("admin") && server.journal && changing("Backup", backup));
  }
  const drain = (/** @type {boolean} */ on) => attempt(async () => { await post("server/drain", { on }); server = await request("server"); show(); });
  /** A link cannot post, and a page cannot write a file as it comes: the archive is in memory for a moment. */
  const backup = () => attempt(async () => {
    const response = await fetch(url("backup"), { method: "POST" });
    if (!response.ok) throw new Error((await response.json()).detail);
    save(await response.blob(), "jobcentre-backup.tar", "application/x-tar");
  });
  show();
  await actions.load();
  return page("System", { actions: [buttons] }, { refresh: actions.load, every: { 2: actions.load },
    frame(event, data) {
      if (event !== "overview") return;
      server = data;
      if (!buttons.contains(document.activeElement)) show();
    } }, columns, section("Actions", "the last ones first", actions.node));
}
