// What pages have in common: their head, lists of the API, small lines of queues.

import { request, parameters, queuePath, remove } from "./api.js";
import { shared, spark } from "./chart.js";
import { attempt, confirm, notices } from "./dialog.js";
import { button, buttonLink, el, input, put } from "./dom.js";
import { many } from "./format.js";
import { table } from "./table.js";

/** @typedef {import("./dom.js").Child} Child */

/**
 * A page: `every` is done in turn while figures are live, by seconds; `frame` takes what comes over
 * the stream, `refresh` asks anew.
 * @typedef {{every?: Record<number, (inPlace: boolean) => any>, frame?: (event: string, data: any) => void, queues?: string[], refresh?: () => any}} Acts
 * @typedef {Acts & {title: string, node: HTMLElement, seconds?: number}} Page
 */

/** @param {string} title @param {{heading?: any, about?: any, actions?: any[]}} head @param {Acts} acts @param {...(Child | Child[])} content @returns {Page} */
export function page(title, { heading = title, about, actions }, acts, ...content) {
  put(notices);
  return { title, ...acts, node: el("div", el(".head", el("h1", heading), typeof about === "string" ? el("p.meta", about) : about,
    actions && el(".actions push", actions)), notices, ...content) };
}

/** A field that filters: what it does with its text on Enter. @param {string} label @param {string} placeholder @param {string} value @param {(text: string) => void} act */
export const filter = (label, placeholder, value, act) => {
  const node = input("filter", { type: "search", "aria-label": label, placeholder, value,
    onkeydown: (/** @type {KeyboardEvent} */ event) => event.key === "Enter" && act(node.value.trim()) });
  return node;
};

/**
 * A list of the API as a table, with a line below: how many there are, or `none`, and other pages.
 * `here`: the address of its page with its parameters, if the list has several; `pick`: what is shown.
 * @param {string} path @param {Record<string, any>} query
 * @param {import("./table.js").Options & {none: string, one: string, about?: () => string, here?: [string, Record<string, any>], pick?: (items: any[], next: any) => any[], rows?: (items: any[]) => any[]}} options
 */
export function list(path, query, { none, one, about, here, pick, rows = (items) => items, ...options }) {
  const grid = table(options), foot = el(".foot-line");
  const list = { grid, items: /** @type {any[]} */ ([]), load, show, node: [grid.bar, grid.node, foot] };
  /** @param {boolean} [inPlace] */
  function show(inPlace) {
    return grid.set(rows(list.items), inPlace);
  }
  /** @param {boolean} [inPlace] */
  async function load(inPlace) {
    const { items, next_cursor: next } = await request(path, query);
    list.items = pick ? pick(items, next) : items;
    const left = show(inPlace), number = list.items.length;
    const [address, values] = here ?? ["", {}];
    const to = (/** @type {string} */ text, cursor = "") => buttonLink(`${address}${parameters({ ...values, cursor })}`, text);
    put(foot, el("span", number || next ? `${many(number, one)}${query.cursor || next ? " on this page" : ""}${about?.() ?? ""}` : none),
      left > 0 && button(`${many(left, one)} more: show them`, () => load(), "quiet"), el("span.push"),
      query.cursor && to("First page"), here && next && to("Next page", next));
  }
  return list;
}

/** Asks, and removes something of the API. @param {string} title @param {string} text @param {string} path @param {() => any} after @param {string} [typed] */
export const removal = (title, text, path, after, typed) =>
  confirm(`${title}?`, text, title.split(" ")[0], async () => { await remove(path); await after(); }, typed);

/** The histories of queues, and when they were asked for. @type {Map<string, {at: number, ready: number[]}>} */
const histories = new Map();

/** Small lines of the ready jobs of queues over the last half an hour, on one scale. */
export function sparks() {
  let top = 1;
  const of = (/** @type {any} */ queue) => queue.all ? undefined : histories.get(queue.name)?.ready;
  return {
    /** The top of their scale. */
    top: () => top,
    column: /** @type {import("./table.js").Column} */ (["spark p4", "Ready, 30 min", (queue) => of(queue) && spark(of(queue) ?? [], top), { mark: (queue) => of(queue) && `${top}:${of(queue)}` }]),
    /** Asks for those that are older than a minute, one by one. @param {any[]} queues */
    async load(queues) {
      if (innerWidth < 1280) return;
      for (const { name } of queues) {
        if (Date.now() - (histories.get(name)?.at ?? 0) < 60_000) continue;
        const answer = await request(`${queuePath(name)}/history`, { step: "1m" }).catch(() => null);
        if (answer) histories.set(name, { at: Date.now(), ready: answer.series.ready });
        if (histories.size > 500) histories.delete([...histories.keys()][0]);
      }
      top = shared(queues.flatMap((queue) => of(queue) ?? []));
    },
  };
}

/** Does something to what is listed, and shows it anew. @param {{load: (inPlace: boolean) => any}} list */
export const acting = ({ load }) => (/** @type {() => any} */ act) => attempt(async () => { await act(); await load(true); });

