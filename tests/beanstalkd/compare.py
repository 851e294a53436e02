"""Compares what two servers replied to the same script: masks, and the allow-list."""

import json
import re

from play import END, NOTHING
from script import READ

LATE_S = 0.5  # how far apart the same reply may come
LATE_WITHOUT_WAITS_S = 5  # the same where nothing waits: megabytes take a slow machine a second
LATE_BY_A_DISK_S = 3  # where a put of one server waits for a sync
QUOTED = ("name", "tube", "version", "hostname", "os", "platform")
# What differs between two processes: the key, and what its value must look like.
MASKED = {
    "pid": r"\d+",
    "version": r'"[^"]+"',
    "rusage-utime": r"\d+\.\d{6}",
    "rusage-stime": r"\d+\.\d{6}",
    "uptime": r"\d+",
    "binlog-oldest-index": r"\d+",
    "binlog-current-index": r"\d+",
    "binlog-records-migrated": r"\d+",
    "binlog-records-written": r"\d+",
    "binlog-max-size": r"\d+",
    "id": r"[0-9a-f]{16}",
}
MASKED_OF_JOB = {"file": r"\d+"}
TIMES = ("age", "time-left", "pause-time-left")
LIST = re.compile(rb"(OK \d+\r\n---\n)((?:- [^\n]*\n)*)\r\n")
OF_ID = re.compile(rb"(INSERTED|RESERVED|FOUND) (\d+)")


def read_statistics(reply):
    """The lines of a YAML dictionary and whether its length is right, or None."""
    found = re.match(rb"OK (\d+)\r\n---\n(?=[a-z-]+: )", reply)
    if not found:
        return None
    body = reply[reply.index(b"\r\n") + 2:]
    if not body.endswith(b"\n\r\n") or int(found.group(1)) != len(body) - 2:
        return None
    return body[4:-3].decode("latin-1").split("\n")


def mask_line(line, is_reference, is_job, is_loose):
    key, _, value = line.partition(": ")
    if is_reference and key in QUOTED and not value.startswith('"'):
        value = f'"{value}"'  # 1.12 quotes the version only, 1.13 all
    masks = MASKED_OF_JOB if is_job else MASKED
    if key in masks and re.fullmatch(masks[key], value):
        value = "<masked>"
    if is_loose and key in TIMES and value != "0":
        value = "<a time>" if key != "age" else "0"
    return f"{key}: {value}"


def mask(reply, is_reference, ids, is_loose):
    """`ids`: None, or the ids of this play, which are then shown by their order.

    `is_loose`: times count as equal, and lists in another order.
    """
    lines = read_statistics(reply)
    if lines is not None:
        is_job = lines[0].startswith("id: ") and len(lines) == 14
        if is_job and ids is not None:
            number = int(lines[0][4:])
            lines[0] = f"id: #{ids.index(number) + 1 if number in ids else number}"
        lines = [mask_line(line, is_reference, is_job, is_loose) for line in lines]
        return "OK <n>\\r\\n---\n" + "\n".join(lines) + "\n\\r\\n"
    if is_loose and (found := LIST.fullmatch(reply)):
        reply = found.group(1) + b"".join(sorted(found.group(2).splitlines(True))) + b"\r\n"
    found = OF_ID.match(reply)
    if found and ids is not None:
        number = int(found.group(2))
        shown = b"#%d" % (ids.index(number) + 1) if number in ids else b"#?"
        reply = found.group(1) + b" " + shown + reply[found.end():]
    text = repr(reply)[2:-1]
    return text.replace("\\n", "\\n\n") if reply.startswith(b"OK") else text


class AllowList:
    """Where jobcentre differs on purpose, as data: `allowed.json`. Each entry has its reason."""

    def __init__(self, path):
        with open(path, encoding="utf-8") as file:
            self.entries = json.load(file)
        self.used = set()

    def allows(self, name, where, reference, subject):
        for number, entry in enumerate(self.entries):
            if not matches(name, entry["script"]) or not matches(where, entry.get("at", "*")):
                continue
            if matches(reference, entry["beanstalkd"]) and matches(subject, entry["jobcentre"]):
                self.used.add(number)
                return True
        return False

    def unused(self, names):
        """Entries that were not needed although their scripts were played."""
        for number, entry in enumerate(self.entries):
            played = any(matches(name, entry["script"]) for name in names)
            if played and number not in self.used and not entry.get("sometimes"):
                yield entry


def matches(text, pattern):
    """`*` stands for any text, and nothing else is special."""
    return re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), text, re.DOTALL)


def shorten(text, length=600):
    return text if len(text) <= length else f"{text[:length]}... ({len(text)} characters)"


def side_by_side(reference, subject):
    """Two masked replies; of two statistics only the lines that differ."""
    if reference.startswith("OK <n>") and subject.startswith("OK <n>"):
        old, new = reference.split("\n"), subject.split("\n")
        lines = [f"      - {line}" for line in old if line not in new]
        lines += [f"      + {line}" for line in new if line not in old]
        return "\n".join(lines or ["      the order of the lines"])
    return f"      beanstalkd: {shorten(reference)}\n      jobcentre:  {shorten(subject)}"


def difference(script, reference, subject, allowed, is_loose=False, is_real=False,
               late_s=LATE_S):
    """What differs first, as text, and the step at which it does; or None.

    `is_real`: the subject is a beanstalkd too.
    """
    by_order = "ids" in script.options
    for old, new in zip(reference.events, subject.events):
        masked = [
            [mask(reply, is_reference, played.ids if by_order else None, is_loose)
             for reply in event.replies]
            for is_reference, played, event in ((True, reference, old), (is_real, subject, new))
        ]
        count = max(len(masked[0]), len(masked[1]))
        absent = NOTHING.decode()
        for replies in masked:
            replies += [absent] * (count - len(replies))
        where = old.step if isinstance(old.step, str) else last_text(script, old.index)
        is_allowed = False
        for one, other in zip(*masked):
            if one == other:
                continue
            is_allowed = allowed and allowed.allows(script.name, where, one, other)
            if not is_allowed:
                return f"    at `{where}`:\n{side_by_side(one, other)}", old.index
        if isinstance(old.step, str) and old.step != new.step:
            return f"    beanstalkd is at `{old.step}`, jobcentre at `{new.step}`", old.index
        is_read = not isinstance(old.step, str) and old.step.kind == READ
        if is_real and is_read and masked[0][-1].endswith(absent):
            return f"    at `{where}`: beanstalkd does not reply (`<?` says that it may)", old.index
        is_late = abs(old.at - new.at) > late_s and not is_allowed
        if is_late and any(not it.endswith(END) for it in old.replies):
            at = f"      beanstalkd after {old.at:.3f} s, jobcentre after {new.at:.3f} s"
            return f"    at `{where}`:\n{at}", old.index
    if len(reference.events) != len(subject.events):
        counts = f"{len(reference.events)} and {len(subject.events)}"
        return f"    the numbers of replies: {counts}", len(script.steps) - 1
    for played in (reference, subject):
        if played.wrong:
            return f"    {played.wrong}", len(script.steps) - 1
    return None


def last_text(script, index):
    while index > 0 and not script.steps[index].text:
        index -= 1
    return shorten(script.steps[index].text, 160)
