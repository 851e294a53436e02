// Acting on many jobs: a plan that is counted by a dry run first, then done in the open, with its
// progress, and a way to end it.

import { request, may, post, remove } from "./api.js";
import { attempt, confirm, form, notice } from "./dialog.js";
import { button, capital, changing, el, figures, iconButton, plain, put, queueWords, segments, words } from "./dom.js";
import { count, many } from "./format.js";
import { doing } from "./main.js";
import { json } from "./text.js";

/** What can be done, and how it is called when it was done. @type {Record<string, string>} */
const VERBS = { kick: "kicked", move: "moved", bury: "buried", change: "changed", delete: "deleted" };

/** The fields that can be changed, and what they take. @type {Record<string, string>} */
const CHANGES = { pri: "whole", delay_ms: "time", ttl_ms: "time", max_attempts: "whole" };

/** What a deletion means. */
export const FOR_GOOD = "What is deleted cannot be brought back. Jobs that depend on it are cancelled, unless they say otherwise.";

/** Waits. @param {number} ms */
export const sleep = (ms) => new Promise((done) => setTimeout(done, ms));

/** Waits for the end of an action, and says how far it is. @param {any} action @param {(action: any) => void} [told] */
async function follow(action, told) {
  for (let wait = 50; ; wait = Math.min(wait * 2, 1000)) {
    told?.(action);
    if (action.state !== "running") break;
    await sleep(wait);
    action = await request(`actions/${action.id}`);
  }
  if (action.state === "failed") throw new Error(action.error);
  return action;
}

/**
 * The plan of an action on all jobs that match.
 * @param {{queue: string, where: any, what: string, verbs?: string[], verb?: string, done: () => any, close: () => void}} options
 */
export function plan({ queue, where, what, verbs = Object.keys(VERBS), verb, done, close }) {
  const allowed = verbs.filter((name) => may("manage", queue) && (name !== "move" || may("put")));
  let chosen = verb && allowed.includes(verb) ? verb : allowed[0];
  /** The dry run that the button is about. @type {any} */
  let counted = null;
  let runs = 0;
  /** What a verb needs to know. */
  let fields = form([]);
  const limit = el("input.input num-in", { type: "number", min: 1, placeholder: "all", "aria-label": "At most this many jobs", oninput: show });
  const more = el("span.actions", { oninput: show }), about = el("p.soft", { "aria-live": "polite" }), go = changing("", start), notices = el("div");
  const row = figures("plan-figs", "What would be done", [["", "Would be done"], ["", "Passed over"]]);
  const node = el("section.plan", { "aria-label": `Act on ${what}` }, notices,
    el(".plan-row", segments("What to do", allowed.map((name) => [name, capital(name)]), chosen, choose),
      more, el("span", "at most ", limit), el("span.push"), iconButton("×", "Close the plan", close)),
    row.node, el(".plan-row", about, el("span.push"), button("Run dry again", dry), go));

  /** The request. @param {boolean} [dry] */
  function body(dry = false) {
    const members = fields.members();
    const common = json({ queue, where, do: chosen, dry_run: dry, ...limit.value && { limit: Number(limit.value) } });
    return `${common.slice(0, -1)}${chosen === "change" ? `,"change":{${members}}` : members && `,${members}`}}`;
  }

  /** Shows what is known of the dry run; without one, nothing is. @param {any} [found] */
  function show(found) {
    counted = found?.id ? found : null;
    const number = counted?.done;
    go.className = `btn ${chosen === "delete" ? "grave sure" : "go"}`;
    put(go, `${capital(chosen)} ${counted ? many(number) : "…"}`);
    go.disabled = !number;
    row.say(0, counted ? count(number) : "–", `would be ${VERBS[chosen]}: ${plain(what)}`);
    row.say(1, counted ? count(Math.max(0, (counted.matched ?? number) - number)) : "–", "in another state");
    put(about, counted ? "The dry run has changed nothing; jobs that are put from now on are left alone." : "");
  }

  /** @param {string} name */
  function choose(name) {
    chosen = name;
    fields = form(name === "move" ? [["to", "To", "text", "", "queue"]] : name === "change" ? Object.entries(CHANGES).map(([key, kind]) => [key, words(key), kind]) : []);
    put(more, fields.node);
    dry();
  }

  async function dry() {
    const run = ++runs;
    show();
    if ((chosen === "move" || chosen === "change") && !fields.changed().length) return;
    const action = await attempt(async () => follow(await post("actions", body(true))), notices);
    if (run === runs && action) show(action);
  }

  function start() {
    if (chosen !== "delete") return run();
    const all = `Delete ${many(counted.done)}`;
    confirm(`${all} of ${queueWords(queue)}?`, FOR_GOOD, all, () => { run(); });
  }

  async function run() {
    const number = counted.done, past = VERBS[chosen], title = `${capital(chosen)} ${many(number)} of ${queueWords(queue)}`;
    const begun = await attempt(() => post("actions", body()), notices);
    if (!begun) return;
    const line = el("span"), progress = notice("info", "reserved", title, line, [button("Cancel", () => remove(`actions/${begun.id}`).catch(() => {}))]);
    node.replaceWith(progress);
    const end = await follow(begun, (action) => {
      line.textContent = `${count(action.done)} done, ${Math.floor(action.done / Math.max(1, number) * 100)} %.`;
      doing(action.state === "running" ? `${title}: ${line.textContent}` : "");
    }).then(({ state, done }) => state === "finished" ? notice("info", "completed", `${many(done)} ${past}.`, "") : notice("", "stuck", "Cancelled.", `${many(done)} ${past} before that.`),
      (error) => notice("bad", "buried", "The action has failed.", plain(error.message)));
    doing("");
    progress.replaceWith(end);
    done();
  }

  choose(chosen);
  return node;
}
