#!/usr/bin/env python3
"""Counts instructions per request, or per row of a query, and compares them with what is recorded.

    benches/instruction_counts.py            print, and fail if one is more than 5 % above the record
    benches/instruction_counts.py --record   write benches/instruction_counts.json anew
    benches/instruction_counts.py --gate     the same in the profile `gate`, whose record is
                                             benches/instruction_counts.gate.json

Without --gate the profile is that of a release: `.ci/long` compares those counts. A release build
takes minutes, so the gate compares the counts of a profile of its own.

A benchmark NAME_without does the same as NAME without what NAME is about. The two are compared with
each other, not with the record: it fails if NAME takes more than 3/4 of the instructions, so that
what is clever either saves something or goes.

Needs valgrind and gungraun-runner (`cargo install --locked gungraun-runner --version 0.20.0`). The
counts depend on the compiler, the crates and libc, but not on what else the machine is doing.
"""

import argparse
import json
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__)
REQUESTS = 480  # COUNT in benches/instructions.rs
ROWS = 4800  # ROWS there
ALLOWED = 1.05
GAIN = 0.75


def measure(profile):
    """Runs the bench and returns instructions per request by benchmark."""
    command = ["cargo", "bench", "--locked", "--profile", profile, "--bench", "instructions", "--",
               "--output-format=json"]
    output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    counts = {}
    for line in output.splitlines():
        if line.startswith("{"):
            bench = json.loads(line)
            part = bench["profiles"][0]["data"]["parts"][0]
            total = part["metrics"]["Ir"]["values"]["new"]
            name = "/".join(filter(None, (bench["function_name"], bench.get("id"))))
            counts[name] = round(total / (ROWS if name.startswith("query/") else REQUESTS))
    return counts


def split_pairs(counts):
    """Takes the pairs out of the counts, and returns them: name, count with, count without."""
    names = [name for name in counts if f"{name}_without" in counts]
    return [(name, counts.pop(name), counts.pop(f"{name}_without")) for name in names]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--record", action="store_true", help="write the record anew")
    parser.add_argument("--gate", action="store_true", help="in the profile `gate`")
    options = parser.parse_args()
    record = HERE.with_suffix(".gate.json" if options.gate else ".json")
    counts = measure("gate" if options.gate else "release")
    pairs = split_pairs(counts)
    if options.record:
        record.write_text(json.dumps(counts, indent=2) + "\n")
    recorded = json.loads(record.read_text())
    worse = []
    print(f"{'instructions per request':32}{'now':>8}{'recorded':>10}{'ratio':>8}")
    for name in sorted(counts.keys() | recorded.keys()):
        now, before = counts.get(name), recorded.get(name)
        if now is None or before is None:
            worse.append(f"{name} is measured and recorded")
            print(f"{name:32}{now or '-':>8}{before or '-':>10}")
            continue
        print(f"{name:32}{now:>8}{before:>10}{now / before:>8.3f}")
        if now > before * ALLOWED:
            worse.append(name)
    print(f"{'instructions per row':32}{'with':>8}{'without':>10}{'ratio':>8}")
    useless = []
    for name, own, without in sorted(pairs):
        print(f"{name:32}{own:>8}{without:>10}{own / without:>8.3f}")
        if own > without * GAIN:
            useless.append(name)
    if worse:
        sys.exit(f"more than {ALLOWED:.2f} of the record, or not in both: {', '.join(worse)}")
    if useless:
        sys.exit(f"saves less than a quarter: {', '.join(useless)}")


main()
