// Constraints: how many jobs run at a time, or start in a period.

import { call, get, mayEverywhere } from "./api.js";
import { attempt, confirm, dialog } from "./dialog.js";
import { changing, el, field, iconButton, input, plain, put, shown } from "./dom.js";
import { wrong } from "./exact.js";
import { age, count, duration, many } from "./format.js";
import { column, table, figure } from "./table.js";
import { encode, json } from "./text.js";

/** A rate in words. @param {any} rate */
const words = (rate) => rate ? `${rate.count} in ${age(rate.period_ms)}${rate.burst ? `, ${rate.burst} at once` : ""}` : "–";

export async function openConstraints() {
  const place = el("div"), foot = el(".foot-line"), manages = mayEverywhere("manage");
  const grid = table({ label: "Constraints", kind: "fixed", id: (row) => row.name, open: manages ? edit : undefined, columns: [
    column("name w-5", "Name", (row) => shown(row.name)),
    column("mono grow soft", "Selects", (row) => shown(json(row.matcher))),
    column("mono cut w-5 p2", "For each", (row) => shown(row.per ?? "–")),
    figure("w-2", "Running", (row) => row.max_running === null || row.per ? count(row.running) : `${count(row.running)} of ${count(row.max_running)}`),
    figure("w-2 p2", "At a time", (row) => count(row.max_running)),
    column("w-5 p2", "Rate", (row) => words(row.rate)),
    figure("w-2 p3", "Tokens left", (row) => count(row.tokens)),
    figure("w-3 p3", "Hold back", (row) => row.per ? `${count(row.blocked_keys)} of ${many(row.keys, "key")}` : row.blocked_keys ? "yes" : "no", { tone: (row) => row.blocked_keys ? "warn" : "" }),
    ...manages ? [column("more", "", (/** @type {any} */ row) => iconButton("close", `Delete ${plain(row.name)}`, () => drop(row), { "data-changes": true }))] : []] });
  async function load() {
    const { items } = await get("constraints", { limit: 256 });
    grid.set(items);
    put(foot, items.length ? many(items.length, "constraint") : "No constraint: nothing holds jobs back. One limits how many jobs run at a time (a concurrency limit), or how many start in a period (a rate limit).");
  }
  const drop = (/** @type {any} */ row) => confirm(`Delete the constraint ${plain(row.name)}?`, "The jobs that it holds back become ready.", "Delete it", () => attempt(place, "It was not deleted.", async () => {
    await call("DELETE", `constraints/${encode(row.name)}`);
    await load();
  }), { keep: "Keep it" });

  /** @param {any} [row] */
  function edit(row) {
    const name = input("mono full", { value: row?.name ?? "", required: true, readonly: row !== undefined }), matcher = el("textarea.input mono full", { rows: 3, spellcheck: "false" });
    matcher.value = json(row?.matcher ?? [["name", "=", "fetch-*"]]);
    const running = input("full", { placeholder: "no limit", value: row?.max_running ?? "" }), per = input("mono full", { placeholder: "argument.host", value: row?.per ?? "" });
    const number = input("full", { placeholder: "no limit", value: row?.rate?.count ?? "" }), period = input("full", { placeholder: "10s", value: row?.rate ? `${row.rate.period_ms}ms` : "" });
    dialog(row ? `Change ${plain(row.name)}` : "New constraint", [el(".form", field("Name", name), field("Selects jobs by", matcher, "Terms such as [\"name\", \"=\", \"fetch-*\"]: name is the queue."), field("For each value of", per),
      el(".halves", field("Jobs at a time", running), el("span"), field("Starts", number), field("in", period)))], { verb: row ? "Change it" : "Set it", act: async () => {
      if (wrong(matcher.value)) throw new Error(wrong(matcher.value));
      const ms = duration(period.value);
      if (number.value && isNaN(ms)) throw new Error("Write the period as a time such as 10s.");
      await call("PUT", `constraints/${encode(name.value)}`, { body: { matcher: JSON.parse(matcher.value), ...running.value ? { max_running: Number(running.value) } : {}, ...per.value ? { per: per.value } : {}, ...number.value ? { rate: { count: Number(number.value), period_ms: ms } } : {} } });
      await load();
    } });
  }
  await load();
  return { title: "Constraints", refresh: load, node: el("div", el(".head", el("h1", "Constraints"), el("p.meta", "the numbers of blocked jobs stand at the queues"), el(".actions push", manages && changing("New constraint", () => edit(), { icon: "plus" }))), place, grid.node, foot) };
}
