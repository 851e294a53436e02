// Constraints: how many jobs run at a time, or start in a period.

import { call, get, mayEverywhere } from "./api.js";
import { attempt, confirm, dialog } from "./dialog.js";
import { button, el, field, iconButton, input, plain, put, shown } from "./dom.js";
import { wrong } from "./exact.js";
import { age, duration, many } from "./format.js";
import { table, figure } from "./table.js";

/** A rate in words. @param {any} rate */
const words = (rate) => rate ? `${rate.count} in ${age(rate.period_ms)}${rate.burst ? `, ${rate.burst} at once` : ""}` : "–";

export async function openConstraints() {
  const place = el("div"), foot = el("div", { class: "foot-line" }), manages = mayEverywhere("manage");
  const grid = table({ label: "Constraints", kind: "fixed", id: (row) => row.name, open: manages ? edit : undefined, columns: [
    { label: "Name", kind: "name w-5", cell: (row) => el("span", {}, ...shown(row.name)), mark: (row) => row.name },
    { label: "Selects", kind: "mono grow soft", cell: (row) => el("span", {}, ...shown(JSON.stringify(row.matcher))), mark: (row) => JSON.stringify(row.matcher) },
    { label: "For each", kind: "mono cut w-5 p2", cell: (row) => el("span", {}, ...shown(row.per ?? "–")), mark: (row) => row.per ?? "" },
    figure("At a time", (row) => row.max_running === null ? "–" : String(row.max_running), { kind: "w-2" }),
    { label: "Rate", kind: "w-5 p2", cell: (row) => words(row.rate) },
    ...manages ? [{ label: "", kind: "more", cell: (/** @type {any} */ row) => iconButton("close", `Delete ${plain(row.name)}`, () => drop(row), { "data-changes": true }), mark: () => "x" }] : []] });
  async function load() {
    const { items } = await get("constraints", { limit: 256 });
    grid.set(items);
    put(foot, items.length ? many(items.length, "constraint") : "No constraint: nothing holds jobs back. One limits how many jobs run at a time (a concurrency limit), or how many start in a period (a rate limit).");
  }
  const drop = (/** @type {any} */ row) => confirm(`Delete the constraint ${plain(row.name)}?`, "The jobs that it holds back become ready.", "Delete it", () => attempt(place, "It was not deleted.", async () => {
    await call("DELETE", `constraints/${encodeURIComponent(row.name)}`);
    await load();
  }), { keep: "Keep it" });

  /** @param {any} [row] */
  function edit(row) {
    const name = input({ class: "mono full", value: row?.name ?? "", required: true, readonly: row !== undefined }), matcher = el("textarea", { class: "input mono full", rows: 3, spellcheck: "false" });
    matcher.value = JSON.stringify(row?.matcher ?? [["name", "=", "fetch-*"]]);
    const running = input({ class: "full", placeholder: "no limit", value: row?.max_running ?? "" }), per = input({ class: "mono full", placeholder: "argument.host", value: row?.per ?? "" });
    const number = input({ class: "full", placeholder: "no limit", value: row?.rate?.count ?? "" }), period = input({ class: "full", placeholder: "10s", value: row?.rate ? `${row.rate.period_ms}ms` : "" });
    dialog(row ? `Change ${plain(row.name)}` : "New constraint", [el("div", { class: "form" }, field("Name", name), field("Selects jobs by", matcher, "Terms such as [\"name\", \"=\", \"fetch-*\"]: name is the queue."), field("For each value of", per),
      el("div", { class: "halves" }, field("Jobs at a time", running), el("span"), field("Starts", number), field("in", period)))], { verb: row ? "Change it" : "Set it", act: async () => {
      if (wrong(matcher.value)) throw new Error(wrong(matcher.value));
      const ms = duration(period.value);
      if (number.value && Number.isNaN(ms)) throw new Error("Write the period as a time such as 10s.");
      await call("PUT", `constraints/${encodeURIComponent(name.value)}`, { body: { matcher: JSON.parse(matcher.value), ...running.value ? { max_running: Number(running.value) } : {}, ...per.value ? { per: per.value } : {}, ...number.value ? { rate: { count: Number(number.value), period_ms: ms } } : {} } });
      await load();
    } });
  }
  await load();
  return { title: "Constraints", refresh: load, node: el("div", {}, el("div", { class: "head" }, el("h1", {}, "Constraints"), el("p", { class: "meta" }, "the numbers of blocked jobs stand at the queues"), el("div", { class: "actions push" }, manages && button("New constraint", () => edit(), { icon: "plus", changes: true }))), place, grid.node, foot) };
}
