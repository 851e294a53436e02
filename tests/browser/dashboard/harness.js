// A server, a browser, and what the tests of the dashboard ask of both.

import { spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, existsSync } from "node:fs";
import { createServer, request as connect } from "node:http";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { chromium } from "playwright-core";

export const BINARY = process.env.JOBCENTRE ?? new URL("../../../target/debug/jobcentre", import.meta.url).pathname;
const CHROMIUM = process.env.CHROMIUM ?? ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"].find(existsSync);

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

/** A server on ports of its own. */
export class Server {
  /** @param {string[]} [flags] @param {number} [port] */
  static async start(flags = [], port = 0) {
    const environment = Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith("JOBCENTRE_")));
    const child = spawn(BINARY, ["serve", "--listen", ":0", "--http", `127.0.0.1:${port}`, "--log-format", "json", ...flags], { stdio: ["ignore", "ignore", "pipe"], env: environment });
    const server = new Server();
    server.child = child;
    server.log = [];
    await new Promise((done, failed) => {
      child.once("exit", () => failed(new Error(`the server has ended:\n${server.log.join("\n")}`)));
      createInterface({ input: child.stderr }).on("line", (line) => {
        server.log.push(line);
        const entry = JSON.parse(line);
        if (entry.protocol === "http" && entry.address) {
          server.port = Number(entry.address.split(":").pop());
          done(null);
        }
      });
    });
    server.origin = `http://127.0.0.1:${server.port}`;
    return server;
  }

  /** @param {string} [signal] */
  async stop(signal = "SIGTERM") {
    if (this.child.exitCode !== null) return;
    const ended = new Promise((done) => this.child.once("exit", done));
    this.child.kill(signal);
    await ended;
  }

  /** @param {string} method @param {string} path @param {any} [body] @param {Record<string, string>} [headers] */
  async ask(method, path, body, headers = {}) {
    const text = typeof body === "string" ? body : body === undefined ? undefined : JSON.stringify(body);
    const answer = await fetch(`${this.origin}/api/v1/${path}`, { method, body: text, headers: text === undefined ? headers : { "Content-Type": "application/json", ...headers } });
    const content = await answer.text();
    if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${content}`);
    return content && content.startsWith("{") ? JSON.parse(content) : content;
  }

  /** Puts jobs in batches. @param {string} queue @param {any[]} jobs */
  async put(queue, jobs) {
    const ids = [];
    for (let at = 0; at < jobs.length; at += 1000) {
      const { results } = await this.ask("POST", `queues/${encodeURIComponent(queue)}/jobs`, jobs.slice(at, at + 1000));
      ids.push(...results.map((result) => result.id ?? result.error));
    }
    return ids;
  }

  /** Takes jobs and lets their runs fail. @param {string} queue @param {number} limit @param {any} report */
  async fail(queue, limit, report) {
    const { jobs } = await this.ask("POST", "reserve", { queues: [queue], limit, worker: "web-3" });
    for (const job of jobs) await this.ask("POST", `jobs/${job.id}/fail`, { token: job.token, ...report });
    return jobs.map((job) => job.id);
  }
}

/** A folder that goes with the test. */
export function folder() {
  const path = mkdtempSync(join(tmpdir(), "jobcentre-browser-"));
  process.on("exit", () => rmSync(path, { recursive: true, force: true }));
  return path;
}

export async function browser() {
  if (!CHROMIUM) throw new Error("there is no Chromium here: apt-get install chromium, or set CHROMIUM");
  return chromium.launch({ executablePath: CHROMIUM, args: ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"] });
}

/** Notes everything that a page complains about: messages, errors, violations of the policy. @param {import("playwright-core").Page} page */
export function complaints(page) {
  const found = [];
  page.on("console", (message) => found.push(`${message.type()}: ${message.text()}`));
  page.on("pageerror", (error) => found.push(`error: ${error.message}\n${error.stack}`));
  return found;
}

/**
 * What axe finds on a page, in words.
 * @param {import("playwright-core").Page} page
 * @param {string[]} [rules] Only by these.
 */
export async function findings(page, rules) {
  if (!await page.evaluate(() => "axe" in globalThis)) await page.evaluate(AXE);
  // A colour in the middle of its transition is none that anybody reads.
  await page.waitForFunction(() => document.getAnimations().every((it) => !(it instanceof CSSTransition) || it.playState !== "running"));
  const options = rules ? { runOnly: { type: "rule", values: rules } } : {};
  const { violations } = await page.evaluate((given) => globalThis.axe.run(given), options);
  return violations.map((one) => `${one.id}: ${one.nodes.map((node) => node.html.slice(0, 160)).slice(0, 3).join(" | ")}`);
}

/** A proxy that shows a server below a path, and nothing beside it. @param {Server} server @param {string} prefix */
export async function proxy(server, prefix) {
  /** Requests beside the path. @type {string[]} */
  const strayed = [];
  const listener = createServer((request, response) => {
    if (!request.url.startsWith(`${prefix}/`)) {
      strayed.push(request.url);
      response.writeHead(404).end();
      return;
    }
    const passed = connect({ port: server.port, host: "127.0.0.1", method: request.method, path: request.url.slice(prefix.length), headers: request.headers }, (answer) => {
      response.writeHead(answer.statusCode, answer.headers);
      answer.pipe(response);
    });
    response.on("close", () => passed.destroy());
    passed.on("error", () => response.destroy());
    request.pipe(passed);
  });
  await new Promise((done) => listener.listen(0, "127.0.0.1", () => done(null)));
  return { origin: `http://127.0.0.1:${listener.address().port}`, strayed, close: () => { listener.closeAllConnections(); listener.close(); } };
}

/** Opens an address of the dashboard and waits until its page is there. @param {import("playwright-core").Page} page @param {Server} server @param {string} route */
export async function visit(page, server, route) {
  await page.goto(`${server.origin}/ui/#/${route}`);
  await page.waitForSelector("main h1");
}

/** Waits for a condition in Node. @param {string} what @param {() => any} check */
export async function until(what, check, patience = 90_000) {
  const end = Date.now() + patience;
  for (;;) {
    const found = await check();
    if (found) return found;
    if (Date.now() > end) throw new Error(`in vain waited for ${what}`);
    await new Promise((done) => setTimeout(done, 50));
  }
}
