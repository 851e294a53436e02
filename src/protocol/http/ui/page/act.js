// Acting on many jobs: a plan that is counted by a dry run first, then done in the open, with its
// progress, and a way to end it.

import { call, get, may, post } from "./api.js";
import { attempt, confirm, notice } from "./dialog.js";
import { button, changing, choice, el, iconButton, input, plain, put, segments } from "./dom.js";
import { count, duration, many } from "./format.js";
import { doing } from "./main.js";

const VERBS = /** @type {Record<string, [string, string, string]>} */ ({ kick: ["Kick", "kicked", "Kicking"], move: ["Move", "moved", "Moving"], bury: ["Bury", "buried", "Burying"], change: ["Change", "changed", "Changing"], delete: ["Delete", "deleted", "Deleting"] });

const sleep = (/** @type {number} */ ms) => new Promise((done) => setTimeout(done, ms));

/** Waits for the end of an action, and says how far it is. @param {any} action @param {(action: any) => void} told */
export async function follow(action, told) {
  for (let wait = 50; action.state === "running"; wait = Math.min(wait * 2, 1000)) {
    told(action);
    await sleep(wait);
    action = await get(`actions/${action.id}`);
  }
  told(action);
  return action;
}

/**
 * The plan of an action on all jobs that match.
 * @param {{queue: string, where: any, what: string, verbs?: string[], verb?: string, matched?: number, done: () => any, close: () => void}} options
 */
export function plan({ queue, where, what, verbs = Object.keys(VERBS), verb, matched, done, close }) {
  const allowed = verbs.filter((name) => may("manage", queue) && (name !== "move" || may("put")));
  let chosen = verb && allowed.includes(verb) ? verb : allowed[0];
  /** The dry run that the button is about. @type {any} */
  let counted = null;
  let runs = 0;
  const limit = input("num-in", { type: "number", min: 1, placeholder: "all", "aria-label": "At most so many jobs", oninput: () => stale() });
  const to = input("mono", { placeholder: "queue", oninput: () => stale() });
  const what_ = choice([["pri", "priority"], ["delay", "delay"], ["ttl", "time to live"], ["max_attempts", "attempts"]], { onchange: () => stale() });
  const value = input("mono", { placeholder: "5, or 10m", oninput: () => stale() });
  const fields = el("span.actions"), figures = el("dl.figs plan-figs", { "aria-live": "polite" }), about = el("p.soft");
  const again = button("Run dry again", dry);
  const go = changing("", start, "go");
  const notices = el("div");
  const node = el("section.plan", { "aria-label": `Act on ${what}` }, notices,
    el(".plan-row", segments("What to do", allowed.map((name) => [name, VERBS[name][0]]), chosen, (name) => { chosen = name; stale(); dry(); }),
      fields, el("span", "at most ", limit), el("span.push"), iconButton("close", "Close the plan", close)),
    figures, el(".plan-row", about, el("span.push"), again, go));

  function body() {
    const common = { queue, where, do: chosen, ...limit.value ? { limit: Number(limit.value) } : {} };
    if (chosen === "move") return { ...common, to: to.value };
    if (chosen !== "change") return common;
    const key = what_.value, text = value.value.trim();
    if (key === "pri" || key === "max_attempts") {
      if (!/^-?\d+$/.test(text)) throw new Error("Write a whole number.");
      // An integer goes as it is written, however long.
      return { ...common, change: { [key]: Number(text) } };
    }
    const ms = duration(text);
    if (isNaN(ms)) throw new Error("Write a time such as 90s, 10m or 2h.");
    return { ...common, change: { [`${key}_ms`]: ms } };
  }

  function stale() {
    counted = null;
    put(fields, ...chosen === "move" ? ["to ", to] : chosen === "change" ? [what_, value] : []);
    show();
  }

  function show() {
    const [name, past] = VERBS[chosen];
    const number = counted?.done;
    go.className = `btn ${chosen === "delete" ? "grave sure" : "go"}`;
    put(go, counted ? `${name} ${many(number)}` : `${name}…`);
    go.disabled = !counted || !number;
    const missing = (chosen === "move" && !to.value) || (chosen === "change" && !value.value);
    put(figures, el("div", el("dt", `Would be ${past}`), el("dd.num", counted ? count(number) : missing ? "–" : "…"), el("dd.note", plain(what))),
      el("div", el("dt", "Passed over"), el("dd.num", counted ? count(Math.max(0, (counted.matched ?? number) - number)) : "–"), el("dd.note", "in a state for which this is nothing")));
    put(about, counted ? "The dry run has changed nothing. Jobs that are put from now on are left alone." : missing ? `Say ${chosen === "move" ? "where to" : "what to change"}, then run it dry.` : "Counting…");
  }

  async function dry() {
    if ((chosen === "move" && !to.value) || (chosen === "change" && !value.value)) return;
    const run = ++runs;
    counted = null;
    show();
    const action = await attempt(notices, "The dry run was refused.", async () => follow(await post("actions", { ...body(), dry_run: true }), () => {}));
    if (run !== runs || !action) return;
    if (action.state === "failed") return void notices.prepend(notice("bad", "buried", "The dry run has failed.", plain(action.error ?? "")));
    counted = action;
    show();
  }

  function start() {
    if (!counted) return;
    const act = () => run(body());
    if (chosen !== "delete") return act();
    confirm(`Delete ${many(counted.done)} of ${plan.name_(queue)}?`, "They are gone at once and cannot be brought back. Jobs that depend on them are cancelled, unless they say otherwise.", `Delete ${many(counted.done)}`, () => { act(); });
  }

  /** @param {any} request */
  async function run(request) {
    const number = counted.done;
    const [, past, doingIt] = VERBS[chosen];
    const begun = await attempt(notices, `Nothing was ${past}.`, () => post("actions", request));
    if (!begun) return;
    const line = el("span");
    const cancel = button("Cancel", () => call("DELETE", `actions/${begun.id}`).catch(() => {}));
    const progress = notice("info", "reserved", `${doingIt} ${many(number)} of ${plan.name_(queue)}.`, "", [cancel]);
    progress.querySelector("p")?.append(line);
    node.replaceWith(progress);
    const action = await follow(begun, (now) => {
      const text = `${count(now.done)} done, ${Math.floor(now.done / Math.max(1, number) * 100)} %.`;
      line.textContent = text;
      doing(now.state === "running" ? `1 action under way: ${request.do}, ${text}` : "");
    }).catch(() => null);
    doing("");
    const words = !action ? ["bad", "buried", "The action is not known any more.", "The server was started anew: what was done is done."]
      : action.state === "finished" ? ["info", "completed", `${many(action.done)} ${past}.`, ""]
        : action.state === "cancelled" ? ["", "stuck", "Cancelled.", `${many(action.done)} ${past} before that.`]
          : ["bad", "buried", "The action has failed.", `${plain(action.error ?? "")} ${many(action.done)} ${past} before that.`];
    const end = notice(/** @type {any} */ (words[0]), words[1], words[2], words[3], [button("Close", () => end.remove(), "quiet")]);
    progress.replaceWith(end);
    done();
  }

  if (matched !== undefined && chosen === undefined) close();
  stale();
  dry();
  return node;
}

/** The name of a queue in a sentence. @param {string} name */
plan.name_ = (name) => name === "" ? "the queue without a name" : plain(name);


