"""The life of jobs by aiostalk. Arguments: the server's host and port."""

import asyncio
import sys

import aiostalk

HOST, PORT = sys.argv[1], int(sys.argv[2])


async def main():
    async with aiostalk.Client((HOST, PORT)) as client:
        await client.use("mails")
        assert await client.using() == "mails"
        assert await client.watch("mails") == 2
        assert await client.ignore("default") == 1
        first = await client.put("first", priority=7, ttr=30)
        delayed = await client.put("delayed", delay=1)
        job = await client.reserve(timeout=5)
        assert (job.id, job.body) == (first, "first"), job
        stats = await client.stats_job(job)
        assert (stats["state"], stats["pri"], stats["ttr"]) == ("reserved", 7, 30), stats
        await client.touch(job)
        await client.bury(job)
        assert (await client.peek_buried()).id == first
        assert await client.kick(10) == 1
        job = await client.reserve_job(first)
        await client.release(job, delay=3)
        assert (await client.peek_delayed()).id == delayed
        job = await client.reserve()
        assert job.body == "delayed", job
        await client.delete(job)
        assert await client.kick(1) == 1  # kick_job of aiostalk 1.3.1 sends nothing
        await client.delete(await client.reserve(timeout=0))
        for wrong, error in (
            (client.reserve(timeout=0), aiostalk.TimedOutError),
            (client.delete(first), aiostalk.NotFoundError),
            (client.ignore("mails"), aiostalk.NotIgnoredError),
            (client.put("x" * 65536), aiostalk.JobTooBigError),
        ):
            try:
                await wrong
            except error:
                continue
            raise AssertionError(f"no {error}")
        await client.pause_tube("mails", 1)
        await client.put("later")
        assert (await client.reserve(timeout=5)).body == "later"
        assert (await client.stats_tube("mails"))["cmd-pause-tube"] == 1
        assert (await client.stats())["current-connections"] == 1
        assert await client.tubes() == ["default", "mails"]
        assert await client.watching() == ["mails"]


asyncio.run(main())
