// The life of jobs by node-beanstalk. Arguments: the server's host and port.
const assert = require("assert");
const { Client, BeanstalkJobState } = require("node-beanstalk");

async function main() {
  const client = new Client({ host: process.argv[2], port: Number(process.argv[3]) });
  await client.connect();
  assert.equal(await client.use("mails"), "mails");
  assert.equal(await client.watch("mails"), 2);
  await client.ignore("default");
  const first = await client.put({ to: "a@example.com" }, 30, 7);
  assert.equal(first.state, BeanstalkJobState.ready);
  let job = await client.reserveWithTimeout(5);
  assert.equal(job.id, first.id);
  const stats = await client.statsJob(job.id);
  assert.equal(stats.state, "reserved");
  assert.equal(stats.pri, 7);
  assert.equal(stats.tube, "mails");
  assert.equal(await client.touch(job.id), true);
  assert.equal(await client.bury(job.id), true);
  assert.equal((await client.peekBuried()).id, first.id);
  assert.equal(await client.kick(10), 1);
  job = await client.reserveJob(first.id);
  assert.equal(await client.release(job.id, 1, 1), BeanstalkJobState.delayed);
  assert.equal((await client.peekDelayed()).id, first.id);
  job = await client.reserve();
  assert.equal(job.id, first.id);
  assert.equal(await client.delete(job.id), true);
  assert.equal(await client.delete(job.id), false);
  assert.equal(await client.peek(job.id), null);
  assert.equal(await client.reserveWithTimeout(0), null);
  assert.equal(await client.pauseTube("mails", 1), true);
  const later = await client.put("later", 30);
  job = await client.reserveWithTimeout(5);
  assert.equal(job.id, later.id);
  assert.deepEqual(await client.listTubes(), ["default", "mails"]);
  assert.deepEqual(await client.listTubesWatched(), ["mails"]);
  assert.equal(await client.listTubeUsed(), "mails");
  assert.equal((await client.statsTube("mails"))["current-jobs-reserved"], 1);
  assert.equal((await client.stats())["current-connections"], 1);
  await client.disconnect();
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
