// Putting a job, or the same one several times. What was put last is kept in this browser only.

import { call, request, kept, may, queuePath } from "./api.js";
import { attempt, done, form } from "./dialog.js";
import { button, buttonLink, el, plain, put, queueHref, queueLink, submit } from "./dom.js";
import { many } from "./format.js";
import { page } from "./list.js";

/** @param {string[]} _rest @param {URLSearchParams} query */
export async function openPut(_rest, query) {
  const from = query.get("from"), like = from && await request(`jobs/${from}`), packed = like?.payload_base64;
  const { items } = may("observe") ? await request("queues", { limit: 200 }) : { items: [] };
  const where = form([["queue", "Queue", "name", like?.queue ?? query.get("queue")]]);
  where.node.querySelector("input").setAttribute("list", "queues");
  const what = form([
    packed ? ["payload_base64", "Payload in base64", "name", packed] : ["payload", "Payload", "json", like?.payload ?? '{"to":"ann"}', "", "Any JSON, kept as it stands here."],
    ["pri", "Priority", "whole", like?.pri, "0"], ["delay_ms", "Delay", "time", "", "none"], ["ttl_ms", "Time to live", "time", "", "none"], ["ttr_ms", "Time to run", "time", like?.ttr_ms, "60s"],
    ["max_attempts", "Attempts", "whole", like?.max_attempts, "10"], ["keep_result_ms", "Keep result", "time", like?.keep_result_ms, "0s"], ["key", "Key", "text", "", "none"]]);
  const times = form([["number", "How many", "whole", 1]]), last = el("aside");

  /** What was put last. @returns {any[]} */
  const puts = () => kept("puts") ?? [];

  async function send() {
    const queue = where.get("queue"), body = `{${what.members()}}`, number = Number(times.get("number")) || 1;
    if (!queue) throw new Error("Say into which queue.");
    const ids = [];
    for (let left = number; left > 0; left -= 1000) {
      const { results } = await call("POST", `${queuePath(queue)}/jobs`, { body: `[${Array(Math.min(1000, left)).fill(body).join()}]` });
      for (const { id, error } of results) {
        if (error) throw new Error(`${ids.length} were put, then: ${error.detail}`);
        ids.push(id);
      }
    }
    const payload = packed ? "" : what.get("payload");
    if (!packed) kept("puts", [{ queue, payload }, ...puts().filter((one) => one.payload !== payload || one.queue !== queue)].slice(0, 20));
    done(number === 1 ? `Job ${ids[0]} was put.` : `${many(number)} were put.`, [buttonLink(number === 1 ? `#/job/${ids[0]}` : queueHref(queue), "Show")]);
    recent();
  }

  function recent() {
    put(last, el("h2.kv-head", "Put last"), puts().map(({ queue, payload }) => button(`${plain(queue)}  ${plain(payload.slice(0, 60))}`, () => { where.set("queue", queue); if (!packed) what.set("payload", payload); }, "quiet mono recent")),
      !puts().length && el("p.dim", "Nothing yet."));
  }
  recent();
  return page("Put a job", { about: like && el("p.meta", `like ${from}, from `, queueLink(like.queue)) }, {},
    el(".wide-aside job", el("form.form", { onsubmit: (/** @type {Event} */ event) => { event.preventDefault(); attempt(send); } },
      where.node, what.node, times.node, el("datalist", { id: "queues" }, items.map((/** @type {any} */ one) => el("option", { value: one.name }))),
      el(".actions", submit("Put", "go", { "data-changes": true }))), last));
}
