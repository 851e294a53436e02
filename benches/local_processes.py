"""What the scripts of this folder ask of this machine: a program, a port, and the CPU time of a
process."""

import argparse
import os
import pathlib
import socket

TICK = os.sysconf("SC_CLK_TCK")


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def program(path):
    """The path of a program, an argument of argparse."""
    found = pathlib.Path(path).resolve()
    if not (found.is_file() and os.access(found, os.X_OK)):
        raise argparse.ArgumentTypeError(f"{path} is no program")
    return str(found)


def cpu_seconds(pid):
    """What a process, with its threads, has used; those that have ended, too."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICK
