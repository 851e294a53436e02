// What the server holds in most tests and in the pictures: mail.digest fails at a relay and piles
// up, crm.sync.contacts has no worker, reports.pdf is paused; some names and payloads are hostile.

export const HOSTILE = ["<img src=x onerror=\"alert(1)\">", "import\u202egnp.exe", "nul\u0000and\u0007bell", "\"'`><script>alert(2)</script>", "x".repeat(200), "\u200bzero\u2060width\ufeff", "javascript:alert(3)", "=1+1", "a|hidden-text"];

const people = ["ann", "bo.larsen", "c.okafor", "dmitri", "eun-ji", "farid", "greta.h", "hiro", "ines", "jun"];

const mail = (at) => `{"to":"${people[at % 10]}@example.net","template":"${at % 7 ? "digest-weekly" : "digest-daily"}","locale":"${["de", "en", "pt-BR", "fr"][at % 4]}","account":900719925474099${String(31234 + at)},"ratio":0.10,"items":[${at % 90},71,205],"subject":"Sua semana \\u2014 3 novidades <b>para voc\\u00ea</b>","headers":{"x-mailer":"digest","x-list":"weekly"}}`;

/** Jobs as raw text, so that numbers keep their digits. */
const raw = (payloads, rest = "") => `[${payloads.map((payload) => `{"payload":${payload}${rest}}`).join(",")}]`;

/** @param {import("./harness.js").Server} server */
export async function tell(server) {
  const put = (queue, payloads, rest) => server.ask("POST", `queues/${encodeURIComponent(queue)}/jobs`, raw(payloads, rest));
  const many = (count, make = mail) => Array.from({ length: count }, (_, at) => make(at));
  await server.ask("PUT", "queues/mail.digest/index");
  await put("mail.digest", many(120), ',"max_attempts":1,"backoff":{"kind":"fixed","first_ms":600000}');
  await server.fail("mail.digest", 60, { error: "SmtpError", message: "451 4.7.1 Greylisted, please try again in 00:04:59\nFile \"mailer/relay.py\", line 118, in deliver\n    code, text = self.conn.rcpt(to)" });
  await put("mail.digest", many(30), ',"delay_ms":540000');
  await put("crm.sync.contacts", many(84, (at) => `{"contact":${at},"source":"crm"}`));
  await put("reports.pdf", many(31, (at) => `{"report":"monthly","page":${at}}`));
  await server.ask("POST", "queues/reports.pdf/pause", { for_ms: 1_020_000 });
  for (const [at, queue] of ["billing.charge", "billing.invoice", "exports.csv", "geo.lookup", "images.resize", "images.thumbnail", "mail.welcome", "notify.push", "orders.fulfil", "video.transcode"].entries()) {
    await put(queue, many(3 + at * 5, (n) => `{"n":${n}}`), ',"keep_result_ms":3600000');
    const { jobs } = await server.ask("POST", "reserve", { queues: [queue], limit: 2 + at, worker: `${queue.split(".")[0]}-1`, ttr_ms: 3_600_000 });
    for (const job of jobs.slice(0, 1 + at / 2)) await server.ask("POST", `jobs/${job.id}/complete`, { token: job.token, result: { ok: true, at } });
  }
  for (const name of HOSTILE) await put(name, [JSON.stringify({ [name]: name })]);
  await server.ask("POST", "queues/bytes/jobs", { payload_base64: Buffer.from([0, 1, 2, 255, 104, 105]).toString("base64") });
  await server.ask("PUT", "constraints/hosts", { matcher: [["name", "=", "fetch-*"]], max_running: 2, per: "argument.host" });
  await server.ask("PUT", "constraints/partners", { matcher: [["name", "=", "call"]], rate: { count: 10, period_ms: 1000 } });
  await put("fetch-pages", many(5, (at) => `{"host":"a.example","page":${at}}`));
  await server.ask("POST", "reserve", { queues: ["fetch-pages"], limit: 2, worker: "fetcher" });
  const schedule = (name, body) => server.ask("PUT", `schedules/${encodeURIComponent(name)}`, { job: { payload: {} }, ...body });
  await schedule("billing-close", { cron: "0 2 1 * *", timezone: "Europe/Berlin", queue: "billing.invoice" });
  await schedule("orders-sweep", { cron: "*/15 8-18 * * Mon-Fri", timezone: "America/New_York", queue: "orders.fulfil", overlap: "skip" });
  await schedule("rollup", { every_ms: 3_600_000, queue: "metrics.rollup" });
  await schedule("trial-reminders", { cron: "0 9 * * *", timezone: "Europe/Berlin", queue: "mail.welcome", paused: true });
  const buried = await server.ask("GET", "queues/mail.digest/jobs?state=buried&limit=5");
  return { buried: buried.items.map((job) => job.id) };
}
