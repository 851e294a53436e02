#!/usr/bin/env python3
"""Attacks on the time of a pass. Usage: tests/attacks/run.py BINARY [--small] [ATTACK...]"""

import argparse
import importlib
import os
import pathlib
import resource
import sys

sys.dont_write_bytecode = True
import attack  # noqa: E402


def main():
    here = pathlib.Path(__file__).parent
    names = sorted(path.stem for path in here.glob("*.py"))
    names = [name for name in names if name not in ("attack", "run")]
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("binary")
    parser.add_argument("attacks", nargs="*", metavar="ATTACK", help=", ".join(names))
    parser.add_argument("--small", action="store_true", help="small loads")
    parser.add_argument("--json", action="store_true", help="figures as JSON; --realtime if started by root")
    parser.add_argument("--realtime", action="store_true",
                        help="the server's loop and the canary run before all else (needs root)")
    options = parser.parse_intermixed_args()
    options.realtime |= options.json and os.geteuid() == 0
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    for name in options.attacks or names:
        module = importlib.import_module(name)
        one = attack.Attack(module, options.binary, options.small, options.realtime)
        try:
            module.run(one)
            one.end(options.json)
        finally:
            one.server.process.kill()
            one.canary.kill()


main()
