// Constraints: how many jobs run at a time, or start in a period.

import { call, mayEverywhere } from "./api.js";
import { ask } from "./dialog.js";
import { changing, plain, shown } from "./dom.js";
import { age, count, many } from "./format.js";
import { list, page, removal } from "./list.js";
import { ending } from "./table.js";
import { encode, json } from "./text.js";

export async function openConstraints() {
  const manages = mayEverywhere("manage");
  const constraints = list("constraints", { limit: 256 }, { label: "Constraints", one: "constraint", open: manages ? edit : undefined,
    none: "No constraint. One limits how many jobs run at a time, or start in a period.", columns: [
      ["name w-5", "Name", "name"],
      ["mono grow soft", "Selects", (row) => shown(json(row.matcher))],
      ["mono w-5 p2", "For each", "per"],
      ["r w-2", "Running", (row) => row.max_running === null || row.per ? count(row.running) : `${count(row.running)} of ${count(row.max_running)}`],
      ["r w-2 p2", "At a time", "max_running"],
      ["w-5 p2", "Rate", ({ rate }) => rate ? `${rate.count} in ${age(rate.period_ms)}${rate.burst ? `, ${rate.burst} at once` : ""}` : "–"],
      ["r w-2 p3", "Tokens left", "tokens"],
      ["r w-3 p3", "Hold back", (row) => row.per ? `${count(row.blocked_keys)} of ${many(row.keys, "key")}` : row.blocked_keys ? "yes" : "no", { tone: (row) => row.blocked_keys && "warn" }],
      manages && ending((row) => `Delete ${plain(row.name)}`, (row) => removal(`Delete the constraint ${plain(row.name)}`, "The jobs that it holds back become ready.", `constraints/${encode(row.name)}`, constraints.load)),
    ] });

  /** @param {any} [row] */
  function edit(row) {
    ask(row ? `Change ${plain(row.name)}` : "New constraint", "", [...row ? [] : /** @type {import("./dialog.js").Field[]} */ ([["name", "Name", "name"]]),
      ["matcher", "Selects jobs by", "json", json(row?.matcher ?? [["name", "=", "fetch-*"]]), "", "Name is the queue."], ["per", "For each value of", "name", row?.per, "argument.host"],
      ["max_running", "Jobs at a time", "whole", row?.max_running, "no limit"], ["count", "Starts", "whole", row?.rate?.count, "no limit"], ["period_ms", "in", "time", row?.rate?.period_ms, "10s"]], row ? "Change it" : "Set it", async (form) => {
      const rate = form.members("count", "period_ms"), parts = [form.members("matcher", "max_running", "per"), rate && `"rate":{${rate}}`];
      await call("PUT", `constraints/${encode(row?.name ?? form.get("name"))}`, { body: `{${parts.filter(Boolean).join()}}` });
      await constraints.load();
    });
  }
  await constraints.load();
  return page("Constraints", { actions: [manages && changing("+ New constraint", () => edit())] }, { refresh: constraints.load }, constraints.node);
}
