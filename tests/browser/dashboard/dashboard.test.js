// The dashboard in a real browser, against a real server.

import assert from "node:assert/strict";
import { readFileSync, writeFileSync, mkdirSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { BINARY, Server, browser, complaints, findings, folder, proxy, until, visit } from "./harness.js";
import { HOSTILE, tell } from "./story.js";

/** Where pictures go; none are made without it. */
const SHOTS = process.env.SHOTS;

/** @type {Server} */
let server;
/** @type {import("playwright-core").Browser} */
let chromium;
let story;
const opened = [];

async function fresh(options = {}) {
  const context = await chromium.newContext({ viewport: { width: 1280, height: 800 }, ...options });
  // A busy machine is slow, and a page that hangs hangs for ever.
  context.setDefaultTimeout(90_000);
  const page = await context.newPage();
  page.complaints = complaints(page);
  opened.push(context);
  return page;
}

before(async () => {
  server = await Server.start(["--ui-label", "production"]);
  chromium = await browser();
  const page = await fresh();
  await visit(page, server, "overview");
  // An empty server says what to do first, and shows the overview with the first job.
  assert.equal(await page.locator(".cmd code").count(), 3);
  const plain = await fresh({ bypassCSP: true });
  await visit(plain, server, "overview");
  assert.deepEqual(await findings(plain), [], "an empty server");
  if (SHOTS) await shoot(page, "empty");
  story = await tell(server);
  await page.waitForSelector("dl.figs");
});

after(async () => {
  for (const context of opened) await context.close().catch(() => {});
  await chromium?.close();
  await server?.stop();
});

const routes = () => ({
  overview: "overview", queues: "queues", queue: "queue/mail.digest?state=buried", job: `job/${story.buried[2]}`,
  search: `search?queue=mail.digest&terms=${encodeURIComponent('[{"path":"payload.locale","op":"=","value":"pt-BR"}]')}`,
  put: "put?queue=mail.digest", workers: "workers", constraints: "constraints", schedules: "schedules", system: "system",
});

const TITLES = { overview: "Overview", queues: "Queues", queue: "mail.digest", job: "Job", search: "Search", put: "Put a job", workers: "Workers", constraints: "Constraints", schedules: "Schedules", system: "System" };

async function shoot(page, name) {
  mkdirSync(SHOTS, { recursive: true });
  for (const scheme of ["light", "dark"]) {
    await page.emulateMedia({ colorScheme: scheme });
    await page.waitForTimeout(200);
    writeFileSync(join(SHOTS, `${name}-${scheme}.png`), await page.screenshot());
  }
  await page.emulateMedia({ colorScheme: "light" });
}

test("each page is there from its link and after a reload, without a complaint", async () => {
  for (const [name, route] of Object.entries(routes())) {
    const page = await fresh();
    await visit(page, server, route);
    await until(`the title of ${name}`, async () => (await page.title()).startsWith(TITLES[name]));
    assert.match(await page.title(), /production/);
    await page.reload();
    await page.waitForSelector("main h1");
    await until("live figures", async () => (await page.locator("footer .live").textContent()) === "Live");
    if (SHOTS) await shoot(page, name);
    assert.deepEqual(page.complaints, [], name);
    await page.context().close();
  }
});

// What can break in other colours, and what can in other widths.
const COLOURS = ["color-contrast", "link-in-text-block"];
const WIDTHS = ["target-size", "scrollable-region-focusable"];

test("axe finds nothing: light, dark, forced colours, 320 px, 1024 px, text at 200 %, and nothing scrolls sideways", async () => {
  // By all rules each takes seconds, so the last five have them only where LARGE is set.
  const ways = [
    ["light", 1280, "none"], ["dark", 320, "none"],
    ["dark", 1280, "none", COLOURS], ["light", 1280, "active", COLOURS],
    ["light", 320, "none", WIDTHS], ["light", 1024, "none", WIDTHS],
  ];
  // 640 px is what a window of 1280 px has at 200 %.
  for (const [zoom, shown] of [[1, ways], [2, [["dark", 640, "none", WIDTHS]]]]) {
    const page = await fresh({ viewport: { width: shown[0][1], height: 800 / zoom }, deviceScaleFactor: zoom, bypassCSP: true });
    for (const [name, route] of Object.entries(routes())) {
      // Each page is loaded once, and not from the page before.
      await page.goto("about:blank");
      for (const [colorScheme, width, forcedColors, rules] of shown) {
        await page.emulateMedia({ colorScheme, forcedColors });
        await page.setViewportSize({ width, height: 800 / zoom });
        if (page.url() === "about:blank") await visit(page, server, route);
        await page.waitForTimeout(300);
        const over = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
        assert.ok(over <= 0, `${name} at ${width} is ${over} too wide`);
        assert.deepEqual(await findings(page, process.env.LARGE ? undefined : rules), [], `${name} ${colorScheme} ${width} ${forcedColors}`);
      }
    }
    await page.context().close();
  }
});

test("axe finds nothing in what is open for a while: dialogs, menus, choices, plans, problems", async () => {
  for (const [colorScheme, width] of [["light", 1280], ["dark", 320]]) {
    const page = await fresh({ colorScheme, viewport: { width, height: 800 }, bypassCSP: true });
    const check = async (name) => {
      const over = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
      assert.ok(over <= 0, `${name} at ${width} is ${over} too wide`);
      assert.deepEqual(await findings(page), [], `${name} ${colorScheme} ${width}`);
    };
    await visit(page, server, "queue/mail.digest?state=buried");
    await page.locator("tbody input[type=checkbox]").first().check();
    await page.waitForSelector(".bar.sel");
    await check("a choice");
    await page.click(".bar.sel >> text=Delete…");
    await page.waitForSelector(".plan .num");
    await check("a plan");
    await page.reload();
    await page.click("[aria-label='More actions']");
    await check("a menu");
    await page.click("text=Purge…");
    await page.waitForSelector("dialog[open]");
    await check("a purge");
    await page.keyboard.press("Escape");
    for (const [route, button] of [["constraints", "New constraint"], ["schedules", "New schedule"], [`job/${story.buried[1]}`, "Change…"]]) {
      await visit(page, server, route);
      await page.click(`text=${button}`);
      await page.waitForSelector("dialog[open]");
      await check(button);
      await page.keyboard.press("Escape");
    }
    for (const route of ["job/99999999", "job/none", "nowhere", "constructor"]) {
      await visit(page, server, route);
      await page.waitForSelector(".gone");
      await check(route);
    }
    await page.context().close();
  }
});

test("behind a path of a proxy: each page, live, and nothing is asked for beside it", async () => {
  const before = await proxy(server, "/tools/jobs");
  try {
    for (const [name, route] of Object.entries(routes())) {
      const page = await fresh();
      await page.goto(`${before.origin}/tools/jobs/ui/#/${route}`);
      await until(`the title of ${name}`, async () => (await page.title()).startsWith(TITLES[name]));
      await until("live figures", async () => (await page.locator("footer .live").textContent()) === "Live");
      assert.deepEqual(page.complaints, [], name);
      await page.context().close();
    }
    const page = await fresh();
    await page.goto(`${before.origin}/tools/jobs/`);
    assert.equal(new URL(page.url()).pathname, "/tools/jobs/ui/");
    await page.waitForSelector("dl.figs");
    await page.context().close();
    assert.deepEqual(before.strayed, []);
  } finally {
    before.close();
  }
});

test("the first page takes few requests, and comes compressed", async () => {
  const page = await fresh();
  const files = [];
  page.on("response", (response) => { if (response.url().includes("/ui/")) files.push(response); });
  await visit(page, server, "overview");
  assert.ok(files.length <= 5, files.map((file) => file.url()).join());
  for (const file of files) {
    const { "content-encoding": coding, vary } = await file.allHeaders();
    // The name of the stage is written into the page itself.
    const { "accept-encoding": taken } = await file.request().allHeaders();
    const best = /\bbr\b/.test(taken) ? "br" : "gzip";
    assert.equal(coding, /\/ui\/$/.test(file.url()) ? undefined : best, file.url());
    assert.match(vary, /accept-encoding/i);
  }
});

test("hostile names and payloads stay text in every place", async () => {
  const page = await fresh();
  await visit(page, server, "queues");
  for (const name of HOSTILE) {
    const encoded = encodeURIComponent(name);
    const { items } = await server.ask("GET", `queues/${encoded}/jobs?state=ready`);
    for (const route of [`queue/${encoded}`, `job/${items[0].id}`, `search?queue=${encoded}`, `put?from=${items[0].id}`, `queues?match=${encoded}`]) {
      await visit(page, server, route);
      await page.waitForTimeout(60);
    }
  }
  assert.equal(await page.locator("main img, main script, main iframe").count(), 0);
  await visit(page, server, "queues");
  assert.ok(await page.locator(".esc", { hasText: "\\u202e" }).count() > 0, "what turns text round is an escape");
  const text = await page.locator("main").textContent();
  for (const hidden of ["\u202e", "\u0000", "\u200b", "\ufeff"]) assert.ok(!text.includes(hidden));
  assert.deepEqual(page.complaints, []);
});

test("the policy forbids markup from text", async () => {
  const page = await fresh();
  await visit(page, server, "overview");
  const refused = await page.evaluate(() => {
    try {
      document.createElement("div").innerHTML = "<b>x</b>";
      return false;
    } catch {
      return true;
    }
  });
  assert.ok(refused);
});

test("payloads are shown digit by digit", async () => {
  const page = await fresh();
  const payload = '{"big":90071992547409931234,"ratio":0.10,"text":"\\u2014<b>"}';
  const { id } = await server.ask("POST", "queues/exact/jobs", `{"payload":${payload},"pri":9007199254740993}`);
  await visit(page, server, `job/${id}`);
  const text = await page.locator(".text").textContent();
  for (const part of ["90071992547409931234", "0.10", "\\u2014<b>"]) assert.ok(text.includes(part), part);
  assert.ok((await page.locator("aside").textContent()).includes("9007199254740993"));
});

test("ten tabs are live over one stream, and the next one takes over", async () => {
  const page = await fresh();
  const context = page.context();
  let streams = 0;
  context.on("request", (request) => { if (request.url().includes("/stream")) streams++; });
  const pages = [page, ...await Promise.all(Array.from({ length: 9 }, () => context.newPage()))];
  for (const one of pages) await visit(one, server, "overview");
  for (const one of pages) await until("a live tab", async () => (await one.locator("footer .live").textContent()) === "Live");
  assert.equal(streams, 1);
  await pages[0].close();
  const stamp = async () => pages[5].locator("footer b").first().textContent();
  const was = await stamp();
  await until("figures after the leader has gone", async () => (await stamp()) !== was && streams === 2);
});

test("a restart of the server is said, and the page goes on", async () => {
  const data = folder();
  const first = await Server.start(["--data", data]);
  await first.ask("POST", "queues/kept/jobs", { payload: 1 });
  const page = await fresh();
  await visit(page, first, "queue/kept");
  await until("live", async () => (await page.locator("footer .live").textContent()) === "Live");
  // Less than a second and a half between two starts counts as the jitter of a network.
  await page.waitForTimeout(2000);
  await first.stop();
  await page.waitForSelector("text=The server does not answer.");
  if (SHOTS) await shoot(page, "disconnected");
  assert.ok(await page.locator("[data-changes]").first().isDisabled());
  const second = await Server.start(["--data", data], first.port);
  try {
    await until("the page is live again", async () => (await page.locator("footer .live").textContent()) === "Live");
    await page.waitForSelector("text=The server was started anew");
    assert.ok(!await page.locator("[data-changes]").first().isDisabled());
    assert.equal((await page.locator("dd.num").first().textContent()), "1");
  } finally {
    await page.context().close();
    await second.stop();
  }
});

test("find a stuck job by a word in its payload, see why, and put all of its kind back", async (context) => {
  const page = await fresh();
  await server.put("walk.through", [...Array(40).keys()].map((at) => ({ payload: { customer: at % 4 ? "other" : "Zaphod", at }, max_attempts: 1 })));
  await server.fail("walk.through", 40, { error: "SmtpError", message: "451 Greylisted" });
  await visit(page, server, "overview");
  const from = performance.now();
  await page.click("nav >> text=Search");
  await page.selectOption("#from", "walk.through");
  await page.click("text=Switch it on");
  await page.waitForSelector("text=/jobs? match/");
  await page.fill("input[aria-label='Value 1']", "Zaphod");
  await page.click("form button[type=submit]");
  await page.waitForSelector("text=10 jobs match");
  await page.click("table[aria-label='Jobs that match'] tbody a");
  await page.waitForSelector("text=Its only attempt is used up");
  assert.ok((await page.locator("main").textContent()).includes("SmtpError"));
  await page.goBack();
  await page.click("text=Act on all 10");
  await page.click(".plan >> text=Kick 10 jobs");
  await page.waitForSelector("text=10 jobs kicked.");
  // The aim is a minute for a person who reads; what the pages take of it is told, not asserted.
  context.diagnostic(`nine actions, ${((performance.now() - from) / 1000).toFixed(1)} s`);
  const { counts } = await server.ask("GET", "queues/walk.through");
  assert.deepEqual([counts.ready, counts.buried], [10, 30], "those that match, and no others");
});

test("what a plan says is what the store then holds, and an export is read back", async () => {
  const page = await fresh();
  await server.put("model", [...Array(3000).keys()].map((at) => ({ payload: { at } })));
  await visit(page, server, "queue/model?state=ready");
  await page.click("text=All ready…");
  await page.click(".plan >> text=Move");
  await page.fill(".plan input[placeholder=queue]", "model.moved");
  await page.fill(".plan input[type=number]", "1200");
  await page.click("text=Run dry again");
  await page.waitForSelector("text=Move 1,200 jobs");
  assert.equal((await server.ask("GET", "queues/model")).counts.ready, 3000, "a dry run changes nothing");
  await page.click("text=Move 1,200 jobs");
  await page.waitForSelector("text=1,200 jobs moved.");
  assert.equal((await server.ask("GET", "queues/model")).counts.ready, 1800);
  assert.equal((await server.ask("GET", "queues/model.moved")).counts.ready, 1200);
  await page.reload();
  const [download] = await Promise.all([page.waitForEvent("download"), page.click("text=Export")]);
  const lines = readFileSync(await download.path(), "utf8").trim().split("\n");
  assert.equal(lines.length, 1800);
  const other = await Server.start();
  try {
    const { imported } = await other.ask("POST", "import", lines.join("\n"), { "Content-Type": "application/x-ndjson" });
    assert.equal(imported, 1800);
  } finally {
    await other.stop();
  }
});

test("queues: how many are like that, groups of a prefix, a menu in each row, and an export of what is shown", async () => {
  const page = await fresh({ viewport: { width: 1440, height: 900 } });
  const counts = async () => page.locator(".seg .n").allTextContents();
  await server.put("group.one", [{ payload: 1 }, { payload: 2 }]);
  await server.put("group.two", [{ payload: 3 }]);
  await server.put("groupless", [{ payload: 4 }]);
  await visit(page, server, "queues?match=group*");
  await until("counts", async () => (await counts()).join() === "3,0,0,0");
  await page.click("text=Group by prefix");
  const rows = async () => page.locator("tbody th").allTextContents();
  await until("a group", async () => (await rows()).join() === "group.*,group.one,group.two,groupless");
  assert.match(await page.locator("tbody tr").first().textContent(), /^group\.\*3/);
  assert.equal(await page.locator("tbody input[type=checkbox]").count(), 3, "a group is no queue that can be chosen");
  await page.click("[aria-label='Actions of group.two']");
  await page.click("[role=menuitem] >> text=Pause…");
  await page.click("dialog >> text=Pause >> nth=-1");
  await until("a paused queue", async () => (await counts()).join() === "3,1,0,0");
  await page.click("[aria-label='Actions of group.two']");
  await page.keyboard.press("End");
  await page.click("[role=menuitem] >> text=Resume");
  await until("no paused queue", async () => (await counts()).join() === "3,0,0,0");
  await page.click("[aria-label='Export what is shown']");
  const [download] = await Promise.all([page.waitForEvent("download"), page.click("[role=menuitem] >> text=JSON")]);
  const shown = JSON.parse(readFileSync(await download.path(), "utf8"));
  assert.deepEqual(shown.map((queue) => [queue.name, queue.counts.ready]), [["group.one", 2], ["group.two", 1], ["groupless", 1]]);
  await page.focus(".filter");
  const stamp = async () => page.locator("footer b").first().textContent();
  for (let frame = 0; frame < 4; frame++) {
    const was = await stamp();
    await until("another frame", async () => await stamp() !== was);
  }
  assert.ok(await page.evaluate(() => document.activeElement?.classList.contains("filter")), "what is typed stays");
  await page.click("tbody th >> text=group.*");
  await until("the group alone", async () => (await rows()).join() === "group.one,group.two");
  assert.deepEqual(page.complaints, []);
});

test("what a search has found is exported digit by digit, and a job shows its runs", async () => {
  const page = await fresh();
  await server.ask("PUT", "queues/runs/index");
  const payload = '{"big":90071992547409931234}';
  const { id } = await server.ask("POST", "queues/runs/jobs", `{"payload":${payload},"max_attempts":2,"backoff":{"kind":"fixed","first_ms":600000}}`);
  await server.fail("runs", 1, { error: "E", message: "first" });
  await visit(page, server, "search?queue=runs");
  await page.click("form button[type=submit]");
  await page.waitForSelector("text=1 job matches");
  const [download] = await Promise.all([page.waitForEvent("download"), page.click("button >> text=Export")]);
  assert.ok(readFileSync(await download.path(), "utf8").includes(payload));
  await visit(page, server, `job/${id}`);
  await page.waitForSelector("section[aria-label=Runs]");
  assert.match(await page.locator("section[aria-label=Runs] tbody tr").first().textContent(), /failed$/);
  assert.deepEqual(page.complaints, []);
});

test("deleting and purging ask first", async () => {
  const page = await fresh();
  await server.put("doomed", [{ payload: 1 }, { payload: 2 }]);
  await visit(page, server, "queue/doomed");
  await page.click("[aria-label='More actions']");
  await page.click("text=Purge…");
  const purge = page.locator("dialog button[type=submit]");
  assert.ok(await purge.isDisabled());
  if (SHOTS) await shoot(page, "confirm");
  await page.fill("#typed", "doome");
  assert.ok(await purge.isDisabled());
  await page.fill("#typed", "doomed");
  await purge.click();
  await until("an empty queue", async () => (await server.ask("GET", "queues/doomed")).counts.ready === 0);
});

test("a tour by keyboard", async () => {
  const page = await fresh();
  await visit(page, server, "overview");
  const title = async (text) => until(text, async () => (await page.locator("main h1").textContent()).includes(text));
  for (const [key, text] of [["q", "Queues"], ["s", "Search"], ["w", "Workers"], ["c", "Schedules"], ["l", "Constraints"], ["y", "System"], ["p", "Put a job"], ["o", "Overview"], ["q", "Queues"]]) {
    await page.locator("body").press("g");
    await page.locator("body").press(key);
    await title(text);
    await page.evaluate(() => /** @type {any} */ (document.activeElement)?.blur?.());
  }
  await page.keyboard.press("f");
  await page.keyboard.type("mail.digest");
  await page.keyboard.press("Enter");
  await until("one queue", async () => (await page.locator("main tbody tr").count()) === 1);
  await page.evaluate(() => /** @type {any} */ (document.activeElement)?.blur?.());
  await page.keyboard.press("j");
  await page.keyboard.press("Enter");
  await title("mail.digest");
  await page.keyboard.press("j");
  await page.keyboard.press("x");
  await page.waitForSelector(".bar.sel");
  await page.keyboard.press("Escape");
  await until("no selection", async () => (await page.locator(".bar.sel").count()) === 0);
  await page.keyboard.press("?");
  await page.waitForSelector("dialog[open]");
  await page.keyboard.press("Escape");
  await until("no dialog", async () => (await page.locator("dialog").count()) === 0);
  await page.keyboard.press("r");
  await until("a pause", async () => (await page.locator("footer .live").textContent()) === "Paused");
  await page.keyboard.press("t");
  assert.equal(await page.evaluate(() => document.documentElement.dataset.theme), "dark");
  assert.deepEqual(page.complaints, []);
});

test("with users: a token once, then a session; who may look only sees no button, and gets 403", async () => {
  const config = join(folder(), "jobs.toml");
  const { execFileSync } = await import("node:child_process");
  const token = (user, allow) => /jc_[0-9a-f]+/.exec(execFileSync(BINARY, ["user", "add", user, "--config", config, "--allow", allow], { encoding: "utf8" }))[0];
  writeFileSync(config, "");
  const ops = token("ops", "put:*,take:*,peek:*,manage:*,observe,admin"), looker = token("looker", "observe");
  const guarded = await Server.start(["--config", config]);
  try {
    const authorization = { Authorization: `Bearer ${ops}` };
    await guarded.ask("POST", "queues/secret/jobs", { payload: { word: "hidden-word" } }, authorization);
    const page = await fresh();
    await page.goto(`${guarded.origin}/ui/`);
    await page.waitForSelector("#token");
    if (SHOTS) await shoot(page, "sign-in");
    const other = await fresh({ colorScheme: "dark", viewport: { width: 320, height: 700 }, bypassCSP: true });
    await other.goto(`${guarded.origin}/ui/`);
    await other.waitForSelector("#token");
    assert.deepEqual(await findings(other), [], "sign in");
    await page.fill("#token", "jc_wrong");
    await page.click("text=Sign in >> nth=-1");
    await page.waitForSelector("text=This token is not known here");
    await page.fill("#token", looker);
    await page.keyboard.press("Enter");
    await page.waitForSelector("dl.figs");
    const cookies = await page.context().cookies();
    assert.equal(cookies.length, 1);
    assert.ok(cookies[0].httpOnly && cookies[0].sameSite === "Strict" && /^[0-9a-f]{32}$/.test(cookies[0].value));
    await visit(page, guarded, "queue/secret");
    await page.waitForSelector("text=Payloads are hidden");
    assert.equal(await page.locator("main [data-changes]").count(), 0);
    assert.ok(!(await page.content()).includes("hidden-word"));
    const statuses = await page.evaluate(async () => Promise.all([["POST", "queues/secret/pause"], ["GET", "queues/secret/jobs?state=ready"], ["DELETE", "queues/secret"]].map(async ([method, path]) => (await fetch(`../api/v1/${path}`, { method })).status)));
    assert.deepEqual(statuses, [403, 403, 403]);
    // Its end: the server forgets the session.
    await page.evaluate(() => fetch("../api/v1/session", { method: "DELETE" }));
    await page.waitForSelector("#token");
    await page.fill("#token", ops);
    await page.keyboard.press("Enter");
    await page.waitForSelector("header nav");
    await visit(page, guarded, "queue/secret");
    await page.waitForSelector("text=hidden-word");
    assert.ok(await page.locator("main [data-changes]").count() > 0);
    await page.click("text=Sign out");
    await page.waitForSelector("#token");
    assert.equal((await page.context().cookies()).length, 0);
    await page.context().close();
  } finally {
    await guarded.stop();
  }
});

test("many queues and a long queue: pages stay short", async () => {
  const [jobs, queues] = process.env.LARGE ? [1_000_000, 10_000] : [100_000, 1_000];
  const large = await Server.start(["--max-request", "8MiB"]);
  try {
    const batch = (from) => Array.from({ length: 1000 }, (_, at) => ({ payload: from + at }));
    for (let from = 0; from < jobs; from += 1000) await large.ask("POST", "queues/long/jobs", batch(from));
    for (let at = 0; at < queues; at++) await large.ask("POST", `queues/q.${at}/jobs`, { payload: at });
    const page = await fresh();
    for (const route of ["overview", "queues", "queue/long"]) {
      await visit(page, large, route);
      assert.ok(await page.locator("tbody tr").count() <= 200);
    }
    const number = jobs.toLocaleString("en");
    await until(`${number} jobs`, async () => await page.locator("dd.num").first().textContent() === number);
    await page.click("text=Next page");
    await page.waitForSelector("text=First page");
    assert.deepEqual(page.complaints, []);
    await page.context().close();
  } finally {
    await large.stop();
  }
});
