"""Scripts of exchanges: what the connections of one play send, and when their replies are read.

A file holds many scripts. Each begins with `== NAME` and goes on to the next one:

    # a comment
    option max-job-size 10   the longest body that the server takes
    option ids               ids are compared by their order
    option timed             it takes a second or more, though it has no `wait`
    option unstable          beanstalkd does not do the same each time
    each VERB: bury | touch  one script for each text, which replaces {VERB}, in the name too
    A: peek 1                connection A sends `peek 1` CRLF and reads one reply
    A> reserve               the same, without reading
    A! peek 1\\r              the bytes as they are, without CRLF
    A+ 0 0 60 hello          a put of the body `hello` (priority, delay, ttr), and its reply
    A< 3                     three replies are read (one if there is no number)
    A<?                      one reply if there is one within a moment
    A.                       nothing arrives for a moment
    A| half                  A shuts its sending side down; `close`, `reset`: the connection ends
    A| open                  A is connected (the first step of a connection connects it too)
    A| end                   the server closes: all that comes before is read
    wait 1.5                 seconds
    drain                    SIGUSR1 to the server

Escapes are \\r \\n \\t \\0 \\\\ \\xNN, \\s (a space) and \\e (nothing); {a*200} is `a` 200 times. $2 is
the second id that was inserted in this play, where ids are compared by their order. What is
expected stands nowhere: the reference server says it.
"""

import itertools
import re
from typing import List, NamedTuple

SEND, READ, MAYBE, SILENCE = "send", "read", "maybe", "silence"
CONTROL, WAIT, DRAIN = "control", "wait", "drain"
ESCAPES = {"r": "\r", "n": "\n", "t": "\t", "0": "\0", "\\": "\\", "s": " ", "e": ""}
MOMENT_S = 0.06


class Step(NamedTuple):
    kind: str
    connection: str = ""
    payload: bytes = b""  # SEND
    number: float = 0  # READ: replies; WAIT: seconds
    word: str = ""  # CONTROL
    text: str = ""  # as it is written


class Script(NamedTuple):
    name: str
    options: dict
    steps: List[Step]

    @property
    def seconds(self):
        """How long its waits take at least."""
        waits = sum(step.number for step in self.steps if step.kind == WAIT)
        return waits or (1 if "timed" in self.options else 0)

    def lines(self):
        return "\n".join(step.text for step in self.steps)


def unescape(text):
    def one(found):
        word = found.group(1)
        return chr(int(word[1:], 16)) if word[0] == "x" else ESCAPES[word]

    def repeat(found):
        return found.group(1) * int(found.group(2))

    for _ in range(2):  # a repetition may contain another one
        text = re.sub(r"\{([^{}]*)\*(\d+)\}", repeat, text)
    return re.sub(r"\\(x[0-9a-fA-F]{2}|[rnt0se\\])", one, text).encode("latin-1")


def parse_step(line):
    if line.startswith("wait "):
        return [Step(WAIT, number=float(line[5:]), text=line)]
    if line == "drain":
        return [Step(DRAIN, text=line)]
    found = re.match(r"([A-Z])(<\?|[:>!+<.|]) ?(.*)$", line)
    if not found:
        raise ValueError(f"not a step: {line!r}")
    name, sign, rest = found.groups()
    if sign == ":":
        return [Step(SEND, name, unescape(rest) + b"\r\n", text=line), Step(READ, name, number=1)]
    if sign == ">":
        return [Step(SEND, name, unescape(rest) + b"\r\n", text=line)]
    if sign == "!":
        return [Step(SEND, name, unescape(rest), text=line)]
    if sign == "+":
        priority, delay, ttr, *body = rest.split(" ", 3)
        body = unescape(body[0] if body else "")
        head = f"put {priority} {delay} {ttr} {len(body)}\r\n".encode()
        return [Step(SEND, name, head + body + b"\r\n", text=line), Step(READ, name, number=1)]
    if sign == "<":
        return [Step(READ, name, number=int(rest or 1), text=line)]
    if sign == "<?":
        return [Step(MAYBE, name, text=line)]
    if sign == ".":
        return [Step(SILENCE, name, text=line)]
    if rest not in ("half", "close", "reset", "open", "end"):
        raise ValueError(f"not a step: {line!r}")
    return [Step(CONTROL, name, word=rest, text=line)]


def parse(lines, where):
    """The scripts of one file."""
    found, name, options, choices, body = [], None, {}, [], []

    def finish():
        if name is None:
            return
        for texts in itertools.product(*[texts for _, texts in choices]):
            def fill(line):
                for (word, _), text in zip(choices, texts):
                    line = line.replace("{" + word + "}", text)
                return line

            full = f"{where}/{fill(name)}"
            if choices and fill(name) == name:
                full += " " + ", ".join(text[:40] for text in texts)
            try:
                steps = [step for line in body for step in parse_step(fill(line))]
            except ValueError as error:
                raise ValueError(f"{full}: {error}") from None
            found.append(Script(full, options, steps))

    for line in lines:
        line = line.rstrip()
        if not line or line.startswith("#"):
            continue
        if line.startswith("== "):
            finish()
            name, options, choices, body = line[3:], {}, [], []
        elif line.startswith("option "):
            key, _, value = line[7:].partition(" ")
            options[key] = value
        elif line.startswith("each "):
            word, _, texts = line[5:].partition(": ")
            choices.append((word, texts.split(" | ")))
        else:
            body.append(line)
    finish()
    return found


def load(folder):
    """All scripts of a folder; two of the same name are an error."""
    scripts = []
    for path in sorted(folder.glob("*.txt")):
        with open(path, encoding="utf-8") as lines:
            scripts += parse(lines, path.stem)
    names = [script.name for script in scripts]
    twice = {name for name in names if names.count(name) > 1}
    if twice:
        raise ValueError(f"names that occur twice: {sorted(twice)}")
    return scripts


def merged(script):
    """The same as one send and one read, or None: one connection that only asks."""
    steps = script.steps
    if {step.kind for step in steps} != {SEND, READ}:
        return None
    if len({step.connection for step in steps}) != 1:
        return None
    if b"$" in b"".join(step.payload for step in steps):
        return None
    name = steps[0].connection
    payload = b"".join(step.payload for step in steps)
    count = sum(step.number for step in steps)
    lines = [Step(SEND, name, payload, text=script.lines()), Step(READ, name, number=count)]
    return script._replace(name=script.name + " (merged)", steps=lines)
