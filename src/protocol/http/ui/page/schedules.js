// Schedules: which put jobs when, on one axis of 24 hours.

import { call, get, mayEverywhere, post } from "./api.js";
import { attempt, confirm, dialog, menu, notice } from "./dialog.js";
import { buttonLink, changing, choice, el, field, input, link, plain, put, queueLink, shown, svg, tag } from "./dom.js";
import { wrong } from "./exact.js";
import { age, duration, many, moment, now } from "./format.js";
import { column, table, figure } from "./table.js";
import { encode, json } from "./text.js";

const DAY = 86_400_000;

/** The next runs on an axis of a day; the server tells five, an interval the rest. @param {any} row */
function strip(row) {
  const begin = now();
  let runs = row.next_runs.map((/** @type {string} */ text) => Date.parse(text) - begin);
  if (row.every_ms && runs.length) for (let at = runs[runs.length - 1] + row.every_ms; at < DAY && runs.length < 200; at += row.every_ms) runs.push(at);
  runs = runs.filter((/** @type {number} */ at) => at >= 0 && at < DAY);
  return svg("svg.strip", { viewBox: "0 0 288 20", preserveAspectRatio: "none" }, svg("path.gl", { d: "M0,10h288" }),
    ...[0, 72, 144, 216, 288].map((x) => svg("path.gl", { d: `M${x},4v12` })), ...runs.map((/** @type {number} */ at) => svg("path.l", { d: `M${(at / DAY * 288).toFixed(1)},3v14` })));
}

export async function openSchedules() {
  const place = el("div"), foot = el(".foot-line"), manages = mayEverywhere("manage");
  const path = (/** @type {any} */ row) => `schedules/${encode(row.name)}`;
  const lines = (/** @type {any} */ first, /** @type {string} */ second, kind = "") => el("span", el("span", { class: kind }, first), el("br"), el("span.sub", second));
  const grid = table({ label: "Schedules", kind: "fixed schedules", id: (row) => row.name, columns: [
    column("name w-6", "Name", (row) => el("span", ...shown(row.name), row.paused && tag("warn", "paused", "paused"))),
    column("grow", "When", (row) => lines(row.cron ?? `every ${age(row.every_ms)}`, `${row.timezone}, overlap: ${row.overlap}`, "mono")),
    column("w-5 p2", "Queue", (row) => queueLink(row.queue)),
    column("w-4 p3", "Last job", (row) => row.last_job_id ? lines(link(`#/job/${row.last_job_id}`, String(row.last_job_id)), moment(row.last_run_at)) : "–"),
    figure("w-3", "Next", (row) => row.paused ? "paused" : row.next_runs[0] ? `in ${age(Math.max(0, Date.parse(row.next_runs[0]) - now()))}` : "–"),
    column("day p4", "The next 24 hours", (row) => row.paused ? "" : strip(row), { mark: (row) => row.next_runs.join() }),
    ...manages ? [column("more", "", (/** @type {any} */ row) => menu(`Actions of ${plain(row.name)}`, () => [
      { text: "Run it now", act: () => attempt(place, "It was not run.", async () => { const job = await post(`${path(row)}/run`); place.prepend(notice("info", "completed", `Job ${job.id} was put.`, "", [buttonLink(`#/job/${job.id}`, "Show it")])); }) },
      { text: row.paused ? "Resume" : "Pause", act: () => attempt(place, "It was not changed.", async () => { await set(row, { paused: !row.paused }); await load(); }) },
      { text: "Change…", act: () => edit(row) }, { text: "Delete…", kind: "grave-text", act: () => drop(row) }]), { mark: (/** @type {any} */ row) => json(row) })] : []] });
  /** @param {any} row @param {any} change */
  const set = (row, change) => call("PUT", path(row), { body: { ...row.cron ? { cron: row.cron } : { every_ms: row.every_ms }, timezone: row.timezone, queue: row.queue, job: JSON.parse(json(row.job), (key, value) => key === "payload" && typeof value === "string" ? JSON.parse(value) : value), overlap: row.overlap, missed: row.missed, paused: row.paused, ...change } });
  async function load() {
    const { items } = await get("schedules", { limit: 500 });
    grid.set(items);
    put(foot, items.length ? `${many(items.length, "schedule")}, times in UTC. Each mark is a run; of a cron expression the next five.` : "No schedule. One puts a job again and again: by a cron expression, or at an interval.");
  }
  const drop = (/** @type {any} */ row) => confirm(`Delete the schedule ${plain(row.name)}?`, "Jobs that it has put stay.", "Delete it", () => attempt(place, "It was not deleted.", async () => { await call("DELETE", path(row)); await load(); }), { keep: "Keep it" });

  /** @param {any} [row] */
  function edit(row) {
    const name = input("mono full", { value: row?.name ?? "", readonly: row !== undefined }), when = input("mono full", { value: row?.cron ?? (row?.every_ms ? `${row.every_ms}ms` : ""), placeholder: "*/5 * * * *, or 90s" });
    const zone = input("full", { value: row?.timezone ?? "UTC" }), queue = input("mono full", { value: row?.queue ?? "" }), payload = el("textarea.input mono full", { rows: 4, spellcheck: "false" });
    payload.value = row?.job.payload ?? "{}";
    const overlap = choice([["allow", "put it anyway"], ["skip", "leave it out"]]);
    overlap.value = row?.overlap ?? "allow";
    dialog(row ? `Change ${plain(row.name)}` : "New schedule", [el(".form", field("Name", name), field("When", when, "A cron expression, or an interval."), el(".halves", field("Time zone", zone), field("Queue", queue)), field("Payload", payload), field("While the last job is unfinished", overlap))], { verb: row ? "Change it" : "Set it", act: async () => {
      if (wrong(payload.value)) throw new Error(wrong(payload.value));
      const ms = duration(when.value);
      const rest = row ? Object.entries(row.job).filter(([key, value]) => key !== "payload" && value !== null).map(([key, value]) => `,${json(key)}:${json(value)}`).join("") : "";
      const fields = [isNaN(ms) ? `"cron":${json(when.value)}` : `"every_ms":${ms}`, `"timezone":${json(zone.value)}`, `"queue":${json(queue.value)}`, `"overlap":${json(overlap.value)}`, `"job":{"payload":${payload.value}${rest}}`, `"paused":${row?.paused ?? false}`];
      await call("PUT", `schedules/${encode(name.value)}`, { raw: `{${fields.join(",")}}` });
      await load();
    } });
  }
  await load();
  const timer = setInterval(() => { if (!document.querySelector("dialog[open]") && !document.hidden) load().catch(() => {}); }, 10_000);
  return { title: "Schedules", refresh: load, close: () => clearInterval(timer), node: el("div", el(".head", el("h1", "Schedules"), el(".actions push", manages && changing("New schedule", () => edit(), { icon: "plus" }))), place, grid.node, foot) };
}
