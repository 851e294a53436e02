// A page that stays open: no jumps while its values change, and what it holds does not grow.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { Server, browser, complaints, until, visit } from "./harness.js";

/** @type {Server} */
let server;
/** @type {import("playwright-core").Browser} */
let chromium;

before(async () => {
  server = await Server.start();
  chromium = await browser();
  for (const queue of ["mail.digest", "mail.welcome", "report"]) await server.put(queue, Array.from({ length: 8 }, (_, at) => ({ payload: at })));
});

after(async () => {
  await chromium?.close();
  await server?.stop();
});

async function fresh() {
  const context = await chromium.newContext({ viewport: { width: 1280, height: 800 } });
  const page = await context.newPage();
  page.setDefaultTimeout(90_000);
  page.complaints = complaints(page);
  return page;
}

/** How many jobs the server has. */
const total = async () => (await server.ask("GET", "queues/mail.digest")).counts.ready;

test("what moves while values change is too small to be seen", async () => {
  for (const route of ["overview", "queues", "queue/mail.digest"]) {
    const page = await fresh();
    await visit(page, server, route);
    await until("live figures", async () => (await page.locator("footer .live").textContent()) === "Live");
    // The figure of the queue's ready jobs, wherever it stands.
    const seen = (number) => page.waitForFunction((text) => [...document.querySelectorAll("main dd, main td")].some((node) => node.textContent === text), number.toLocaleString("en"), { timeout: 60_000 });
    await seen(route === "overview" ? await total() + 16 : await total());
    await page.evaluate(() => {
      globalThis.shifts = [];
      const name = (node) => node ? `${node.nodeName}.${node.className} "${node.textContent?.slice(0, 40)}"` : "";
      globalThis.observer = new PerformanceObserver((list) => {
        for (const entry of list.getEntries()) globalThis.shifts.push([entry.value, ...entry.sources.map(({ node }) => name(node))]);
      });
      globalThis.observer.observe({ type: "layout-shift" });
    });
    // From one figure to four, with and without a separator.
    for (const number of [1, 90, 1000]) {
      await server.put("mail.digest", Array.from({ length: number }, (_, at) => ({ payload: at })));
      const ready = await total();
      await seen(route === "overview" ? ready + 16 : ready);
    }
    // What was drawn is told after the next picture.
    await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
    const shifts = await page.evaluate(() => globalThis.shifts);
    const sum = shifts.reduce((all, [value]) => all + value, 0);
    // Browsers call 0.1 good. A word of the last line that gives way by the width of a digit is
    // 0.000006; a row or a column that moves is above the bar.
    assert.ok(sum < 0.0005, `${route}: ${sum}: ${JSON.stringify(shifts)}`);
    assert.deepEqual(page.complaints, [], route);
    await page.context().close();
  }
});

test("the heap is level after many frames of the stream", async () => {
  const page = await fresh();
  const answer = await fetch(`${server.origin}/api/v1/stream?topics=overview`);
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  while (!/^event: overview\n[^]*?\n\n/m.test(text)) text += (await reader.read()).value;
  await reader.cancel();
  const frame = text.match(/^event: overview\n[^]*?\n\n/m)[0];
  const FRAMES = 300;
  let streams = 0;
  // Streams are served up to this number. The request for the next one says that the page has read
  // all of the last; it waits, so that nothing is in flight while the heap is measured.
  let limit = 0;
  /** @type {(() => Promise<void>) | undefined} */
  let waiting;
  await page.route("**/api/v1/stream?*", async (route) => {
    const serve = () => {
      streams++;
      return route.fulfill({ contentType: "text/event-stream", body: `retry: 1\n\n${frame.repeat(FRAMES)}` });
    };
    if (streams < limit) await serve();
    else waiting = serve;
  });
  const devtools = await page.context().newCDPSession(page);
  const used = async (rounds) => {
    limit = rounds;
    const next = waiting;
    waiting = undefined;
    await next?.();
    await until(`${rounds} streams`, () => streams >= rounds && waiting !== undefined, 240_000);
    // Frames are drawn, and what waits for idle time has had some.
    await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestIdleCallback(done, { timeout: 2000 }))));
    const sizes = [];
    for (let count = 0; count < 5; count++) {
      await new Promise((done) => setTimeout(done, 150));
      await devtools.send("HeapProfiler.collectGarbage");
      sizes.push((await devtools.send("Runtime.getHeapUsage")).usedSize);
    }
    return Math.min(...sizes);
  };
  await visit(page, server, "overview");
  // Rings of the charts are full, and code is compiled. What is kept of frames grows in each window
  // of 8 times 300 of them, 1.6 kB each: by more, if it were a tenth of each. What a busy browser has
  // not freed yet may make one window look like that.
  const sizes = [await used(4)];
  const grows = () => sizes.length < 2 || sizes.at(-1) >= sizes.at(-2) + 350_000;
  while (grows() && sizes.length < 4) sizes.push(await used(4 + 8 * sizes.length));
  assert.ok(!grows(), `${sizes.join(", ")} bytes; a frame has ${frame.length}`);
  await page.context().close();
});
