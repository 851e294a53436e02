// Schedules: which put jobs when, on one axis of 24 hours.

import { call, mayEverywhere, post } from "./api.js";
import { ask, done, menu } from "./dialog.js";
import { buttonLink, changing, el, jobLink, plain, queueLink, shown, svg, tag } from "./dom.js";
import { age, apart, duration, moment, now } from "./format.js";
import { acting, list, page, removal } from "./list.js";
import { encode, json } from "./text.js";

const DAY = 86_400_000;

/** The next runs on an axis of a day; the server tells five, an interval the rest. @param {any} row */
function strip({ next_runs, every_ms }) {
  /** @type {number[]} */
  const runs = next_runs.map((/** @type {string} */ text) => Date.parse(text) - +now());
  if (every_ms && runs.length) while (runs[runs.length - 1] < DAY && runs.length < 200) runs.push(runs[runs.length - 1] + every_ms);
  return svg("svg.strip", { viewBox: "0 0 288 20", preserveAspectRatio: "none" }, svg("path.gl", { d: "M0,10h288M0,4v12M72,4v12M144,4v12M216,4v12M288,4v12" }),
    runs.filter((at) => at >= 0 && at < DAY).map((at) => svg("path.l", { d: `M${(at / DAY * 288).toFixed(1)},3v14` })));
}

/** Two lines of a cell. @param {any} first @param {string} second */
const two = (first, second) => el("span", first, el("br"), el("span.sub", second));

/** What a schedule is made anew of; its payload goes as it was put. @param {any} row */
function text({ cron, every_ms, timezone, queue, job, overlap, missed, paused }) {
  const all = { cron, every_ms, timezone, queue, overlap, missed, paused, job: { ...job, payload: 0 } };
  return JSON.stringify(all, (_, value) => value ?? undefined).replace('"payload":0', () => `"payload":${job.payload}`);
}

export async function openSchedules() {
  const manages = mayEverywhere("manage");
  const path = (/** @type {any} */ row) => `schedules/${encode(row.name)}`;
  const schedules = list("schedules", { limit: 500 }, { label: "Schedules", kind: "schedules", one: "schedule",
    none: "No schedule. One puts a job again and again.", about: () => ", times in UTC; of a cron expression the next five runs", columns: [
      ["name w-6", "Name", (row) => [...shown(row.name), row.paused && tag("warn", "paused", "paused")]],
      ["grow", "When", (row) => two(el("span.mono", row.cron ?? `every ${age(row.every_ms)}`), `${row.timezone}, overlap: ${row.overlap}`)],
      ["w-5 p2", "Queue", (row) => queueLink(row.queue)],
      ["w-4 p3", "Last job", (row) => row.last_failure ? two(tag("warn", "", "put rejected"), row.last_failure.detail) : row.last_job_id ? two(jobLink(row.last_job_id), moment(row.last_run_at)) : "–"],
      ["r w-3", "Next", (row) => row.paused ? "paused" : row.next_runs[0] ? `in ${apart(row.next_runs[0])}` : "–"],
      ["day p4", "The next 24 hours", (row) => !row.paused && strip(row), { mark: (row) => `${row.paused}${row.next_runs}` }],
      manages && ["more", "", (row) => menu(`Actions of ${plain(row.name)}`, () => [
        ["Run it now", () => act(async () => { const { id } = await post(`${path(row)}/run`); done(`Job ${id} was put.`, [buttonLink(`#/job/${id}`, "Show it")]); })],
        [row.paused ? "Resume" : "Pause", () => act(() => call("PUT", path(row), { body: text({ ...row, paused: !row.paused }) }))],
        ["Change…", () => edit(row)], ["Delete…", () => removal(`Delete the schedule ${plain(row.name)}`, "Its jobs stay.", path(row), schedules.load), "grave"]]), { mark: json }],
    ] });
  const act = acting(schedules);

  /** @param {any} [row] */
  function edit(row) {
    const old = row ?? { timezone: "UTC", overlap: "allow", queue: "", paused: false, job: { payload: "{}" } };
    ask(row ? `Change ${plain(row.name)}` : "New schedule", "", [...row ? [] : /** @type {import("./dialog.js").Field[]} */ ([["name", "Name", "name"]]),
      ["when", "When", "name", old.cron ?? (row && `${old.every_ms}ms`), "*/5 * * * *, or 90s", "A cron expression, or an interval."], ["timezone", "Time zone", "text", old.timezone], ["queue", "Queue", "text", old.queue],
      ["overlap", "While the last job is unfinished", [["allow", "put it anyway"], ["skip", "leave it out"]], old.overlap], ["payload", "Payload", "json", old.job.payload]], row ? "Change it" : "Set it", async (form) => {
      const when = form.get("when"), ms = duration(when) || null, values = JSON.parse(`{${form.members("timezone", "queue", "overlap")}}`);
      await call("PUT", path(row ?? { name: form.get("name") }), { body: text({ ...old, ...values, cron: ms ? null : when, every_ms: ms, job: { ...old.job, payload: form.get("payload") } }) });
      await schedules.load();
    });
  }
  await schedules.load();
  return page("Schedules", { actions: [manages && changing("+ New schedule", () => edit())] }, { refresh: schedules.load, every: { 10: schedules.load } }, schedules.node);
}
