"""All scripts against beanstalkd and jobcentre at the same time, each on fresh servers."""

import collections
import concurrent.futures
import functools
import pathlib
import sys
import threading
import time

import compare
import play
import script as scripts
from server import Reference, Subject

HERE = pathlib.Path(__file__).resolve().parent
PLAIN_AT_ONCE, TIMED_AT_ONCE = 12, 200
DURABLE_AT_ONCE = 4, 40  # they share a disk
ATTEMPTS = 6  # of a play that a stall of the machine spoils


class Bench:
    """The two servers, and how plays are compared."""

    def __init__(self, reference, subject, durable=False, redis=None):
        self.is_real = pathlib.Path(subject).name == "beanstalkd"
        self.reference = functools.partial(Reference, reference)
        self.subject = functools.partial(Reference, subject)
        if not self.is_real:
            self.subject = functools.partial(
                Subject, subject, durable=durable, redis=redis)
        self.allowed = None if self.is_real else compare.AllowList(HERE / "allowed.json")
        is_late = durable or redis
        self.at_once = DURABLE_AT_ONCE if is_late else (PLAIN_AT_ONCE, TIMED_AT_ONCE)
        self.late_s = compare.LATE_BY_A_DISK_S if is_late else compare.LATE_S
        self.canary = play.Canary()
        self.replays = collections.Counter()

    def play_both(self, script, is_split):
        """At the same time, so that a script with waits takes its time once."""
        found = {}

        def one(side, start):
            try:
                found[side] = play.play(start, script, is_split)
            except Exception as error:  # a server that does not start or breaks the runner
                found[side] = error

        other = threading.Thread(target=one, args=("subject", self.subject))
        other.start()
        one("reference", self.reference)
        other.join()
        for side in ("reference", "subject"):
            if isinstance(found[side], Exception):
                raise RuntimeError(f"{script.name}: {side}: {found[side]!r}") from found[side]
        return found["reference"], found["subject"]

    def is_spoilt(self, plays):
        if any(self.canary.stalled(one.begin, one.end) for one in plays):
            return True
        return any(one.slowest > play.STALL_S for one in plays)

    def compare(self, script, is_split=False, is_loose=False):
        """What differs and at which step, or None."""
        late_s = self.late_s
        if not script.seconds:
            late_s = max(late_s, compare.LATE_WITHOUT_WAITS_S)
        for attempt in range(ATTEMPTS):
            plays = self.play_both(script, is_split)
            found = compare.difference(
                script, *plays, self.allowed, is_loose, self.is_real, late_s
            )
            if not found or not self.is_spoilt(plays):
                return found
            self.replays[script.name] += 1
            time.sleep(0.5 * attempt)
        return found


def variants(loaded):
    """(script, whether it is sent byte by byte): as written, byte by byte, merged."""
    for script in loaded:
        yield script, False
        if not script.seconds:
            yield script._replace(name=script.name + " (byte by byte)"), True
            whole = scripts.merged(script)
            if whole:
                yield whole, False


def run(bench, pattern=None, only_as_written=False):
    """Plays all; returns how many scripts differ."""
    loaded = scripts.load(HERE / "scripts")
    chosen = [one for one in loaded if pattern is None or pattern in one.name]
    if bench.is_real:
        chosen = [one for one in chosen if "unstable" not in one.options]
    plays = [(one, False) for one in chosen] if only_as_written else list(variants(chosen))
    begin, failed, done = time.monotonic(), [], []

    def one(script, is_split):
        try:
            found = bench.compare(script, is_split)
        except RuntimeError as error:
            found = [f"    {error}"]
        done.append(script.name)
        if found:
            failed.append(script.name)
            sys.stdout.write(f"  DIFFERS {script.name}\n{found[0]}\n")
            sys.stdout.flush()

    plain_count, timed_count = bench.at_once
    with concurrent.futures.ThreadPoolExecutor(timed_count) as timed, \
            concurrent.futures.ThreadPoolExecutor(plain_count) as plain:
        longest_first = sorted(plays, key=lambda it: -it[0].seconds)
        tasks = [
            (timed if script.seconds else plain).submit(one, script, is_split)
            for script, is_split in longest_first
        ]
        for task in tasks:
            task.result()
    unused = list(bench.allowed.unused(done)) if bench.allowed else []
    for entry in unused:
        print(f"  NOT NEEDED in allowed.json: {entry}")
    print(
        f"{len(chosen)} scripts in {len(plays)} plays, {len(failed)} differ, "
        f"{len(bench.replays)} played again after a stall of the machine, "
        f"{time.monotonic() - begin:.0f} s",
        flush=True,
    )
    return len(failed) + len(unused)


def show(bench, pattern=None):
    """Prints what the reference replies to the chosen scripts, masked."""
    for script in scripts.load(HERE / "scripts"):
        if pattern is None or pattern in script.name:
            print(f"== {script.name}")
            played = play.play(bench.reference, script)
            ids = played.ids if "ids" in script.options else None
            for event in played.events:
                is_end = isinstance(event.step, str)
                where = event.step if is_end else compare.last_text(script, event.index)
                for reply in event.replies:
                    text = compare.shorten(compare.mask(reply, True, ids, False), 2000)
                    print(f"  {event.at:6.3f}  {where:40} {text}")
    return 0
