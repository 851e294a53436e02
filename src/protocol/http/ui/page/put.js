// Putting a job, or the same one several times. What was put last is kept in this browser only.

import { call, get, kept, may, queuePath } from "./api.js";
import { attempt, notice } from "./dialog.js";
import { button, buttonLink, el, field, input, plain, put, queueLink } from "./dom.js";
import { wrong } from "./exact.js";
import { duration, many } from "./format.js";
import { encode, json } from "./text.js";

/** @param {string[]} _rest @param {URLSearchParams} query */
export async function openPut(_rest, query) {
  const from = query.get("from");
  const like = from ? await get(`jobs/${from}`) : null;
  const names = may("observe") ? (await get("queues", { limit: 200 }).catch(() => ({ items: [] }))).items : [];
  const queue = input("mono full", { list: "queues", required: true, value: like?.queue ?? query.get("queue") ?? "" });
  const text = el("textarea.input mono full", { rows: 12, spellcheck: "false" });
  text.value = like ? like.payload : '{"to":"ann"}';
  const fields = {
    pri: input("full", { placeholder: "0", value: like?.pri ?? "" }), delay: input("full", { placeholder: "none" }), ttl: input("full", { placeholder: "none" }), ttr: input("full", { placeholder: "60s", value: like?.ttr_ms ? `${like.ttr_ms}ms` : "" }),
    attempts: input("full", { placeholder: "10", value: like?.max_attempts ?? "" }), keep: input("full", { placeholder: "0s", value: like?.keep_result_ms ? `${like.keep_result_ms}ms` : "" }), key: input("full", { placeholder: "none" }), number: input("full", { type: "number", min: 1, max: 100_000, value: 1 }),
  };
  const hint = el("p.hint", "Any JSON. It is kept and shown as it stands here."), place = el("div"), last = el("div");
  const check = () => {
    const why = wrong(text.value);
    text.setAttribute("aria-invalid", String(why !== ""));
    hint.className = why ? "hint bad" : "hint";
    hint.textContent = why || "Any JSON. It is kept and shown as it stands here.";
    return why === "";
  };
  text.addEventListener("input", check);

  function job() {
    const parts = [like?.payload_base64 !== undefined ? `"payload_base64":${json(like.payload_base64)}` : `"payload":${text.value}`];
    const whole = (/** @type {string} */ name, /** @type {HTMLInputElement} */ node) => {
      if (node.value.trim() === "") return;
      if (!/^-?\d+$/.test(node.value.trim())) throw new Error(`${name} is a whole number.`);
      // As it is written: a number of JavaScript would not hold all of them.
      parts.push(`"${name}":${node.value.trim()}`);
    };
    const time = (/** @type {string} */ name, /** @type {HTMLInputElement} */ node) => {
      if (node.value.trim() === "") return;
      const ms = duration(node.value);
      if (isNaN(ms)) throw new Error("Write times as 90s, 10m or 2h.");
      parts.push(`"${name}":${ms}`);
    };
    whole("pri", fields.pri);
    whole("max_attempts", fields.attempts);
    time("delay_ms", fields.delay);
    time("ttl_ms", fields.ttl);
    time("ttr_ms", fields.ttr);
    time("keep_result_ms", fields.keep);
    if (fields.key.value) parts.push(`"key":${json(fields.key.value)}`);
    return `{${parts.join(",")}}`;
  }

  const submit = () => attempt(place, "Nothing was put.", async () => {
    if (!check() || !queue.value) throw new Error(queue.value ? hint.textContent ?? "" : "Say into which queue.");
    const body = job(), number = Math.max(1, Number(fields.number.value) || 1);
    const path = `${queuePath(queue.value)}/jobs`;
    let ids = [];
    for (let done = 0; done < number; done += 1000) {
      const some = Math.min(1000, number - done);
      const answer = number === 1 ? await call("POST", path, { raw: body }) : await call("POST", path, { raw: `[${Array(some).fill(body).join(",")}]` });
      const results = number === 1 ? [answer] : answer.results;
      const failed = results.find((/** @type {any} */ result) => result.error);
      if (failed) throw new Error(`${ids.length} were put, then: ${failed.error.detail}`);
      ids.push(...results.map((/** @type {any} */ result) => result.id));
    }
    kept("puts", [{ queue: queue.value, payload: text.value }, ...(kept("puts") ?? []).filter((/** @type {any} */ one) => one.payload !== text.value || one.queue !== queue.value)].slice(0, 20));
    const node = notice("info", "completed", number === 1 ? `Job ${ids[0]} was put.` : `${many(ids.length)} were put.`, "", [buttonLink(number === 1 ? `#/job/${ids[0]}` : `#/queue/${encode(queue.value)}`, number === 1 ? "Show it" : "Show the queue")]);
    place.prepend(node);
    recent();
  });

  function recent() {
    const puts = kept("puts") ?? [];
    put(last, el("h2.kv-head", "Put last"), puts.length ? el("ul.recent", ...puts.map((/** @type {any} */ one) => el("li", button(`${plain(one.queue)}  ${plain(one.payload.slice(0, 60))}`, () => { queue.value = one.queue; text.value = one.payload; check(); }, "quiet mono"))))
      : el("p.dim", "Nothing yet. It is kept in this browser only."));
  }
  recent();
  const node = el("div", el(".head", el("h1", like ? `Put a job like ${from}` : "Put a job"), like && el("p.meta", "from ", queueLink(like.queue))), place,
    el(".wide-aside job", el("form.form", { onsubmit: (/** @type {Event} */ event) => { event.preventDefault(); submit(); } },
      field("Queue", queue), el("datalist", { id: "queues" }, ...names.map((/** @type {any} */ one) => el("option", { value: one.name }))),
      like?.payload_base64 === undefined ? el("div", field("Payload", text), hint) : el("p.soft", "The payload is no JSON: the same bytes are put."),
      el(".quarter", field("Priority", fields.pri), field("Delay", fields.delay), field("Time to live", fields.ttl), field("Time to run", fields.ttr), field("Attempts", fields.attempts), field("Keep the result", fields.keep), field("Key", fields.key), field("How many", fields.number)),
      el(".actions", el("button.btn go large", { type: "submit", "data-changes": true }, "Put"))), el("aside", last)));
  return { title: "Put a job", node };
}
