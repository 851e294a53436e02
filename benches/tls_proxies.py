#!/usr/bin/env python3
"""CPU time of TLS in the server, and of HAProxy and stunnel before its plain listener.

    benches/tls_proxies.py BINARY [--rounds 5] [--depth 1] [--depth 16]

The variants take turns, each round with a fresh server. A figure is the median of the rounds: the
user and system time of the server, and of the proxy before it, for a request of a cycle (put, get,
delete) of 64 connections with jobs of 100 B. HAProxy has one thread. A proxy that is not installed
(`haproxy`, `stunnel4`; or HAPROXY and STUNNEL name the programs) is skipped. Needs openssl.
"""

import argparse
import contextlib
import os
import pathlib
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time

from local_processes import cpu_seconds, free_port, program

PATIENCE = 30


def openssl(*arguments):
    subprocess.run(["openssl", *map(str, arguments)], check=True, stderr=subprocess.DEVNULL)


def certificate(folder):
    """An authority, and a certificate of it for localhost."""
    new = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    ca, ca_key, key, request, chain = (folder / name for name in
                                       ["ca.pem", "ca.key", "key.pem", "request.pem", "cert.pem"])
    openssl("req", "-x509", *new, "-days", "30", "-subj", "/CN=bench", "-keyout", ca_key, "-out", ca)
    openssl("req", *new, "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost",
            "-keyout", key, "-out", request)
    openssl("x509", "-req", "-in", request, "-CA", ca, "-CAkey", ca_key, "-days", "30",
            "-copy_extensions", "copy", "-out", chain)
    (folder / "both.pem").write_bytes(chain.read_bytes() + key.read_bytes())


@contextlib.contextmanager
def running(command, port, folder):
    with open(folder / "log", "ab") as log:
        process = subprocess.Popen(list(map(str, command)), stdout=log, stderr=log, cwd=folder)
    try:
        end = time.monotonic() + PATIENCE
        while True:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                break
            if process.poll() is not None or time.monotonic() > end:
                sys.exit(f"{command[0]} does not serve: {(folder / 'log').read_text()[-2000:]}")
            time.sleep(0.05)
        yield process.pid
    finally:
        process.terminate()
        process.wait(PATIENCE)


def haproxy(program, folder, outer, inner):
    (folder / "haproxy.cfg").write_text(
        "global\n nbthread 1\n"
        "defaults\n mode tcp\n timeout connect 5s\n timeout client 60s\n timeout server 60s\n"
        f"listen tls\n bind 127.0.0.1:{outer} ssl crt {folder}/both.pem\n server one 127.0.0.1:{inner}\n")
    return [program, "-db", "-f", folder / "haproxy.cfg"]


def stunnel(program, folder, outer, inner):
    (folder / "stunnel.conf").write_text(
        f"foreground = yes\npid =\ncert = {folder}/cert.pem\nkey = {folder}/key.pem\n"
        f"[tls]\naccept = 127.0.0.1:{outer}\nconnect = 127.0.0.1:{inner}\n")
    return [program, folder / "stunnel.conf"]


PROXIES = {"haproxy": (haproxy, "HAPROXY", ["haproxy", "/usr/sbin/haproxy"]),
           "stunnel": (stunnel, "STUNNEL", ["stunnel", "stunnel4", "/usr/bin/stunnel4"])}


def installed(name):
    _, variable, programs = PROXIES[name]
    found = [os.environ.get(variable), *map(shutil.which, programs)]
    return next(filter(None, found), None)


def measure(binary, variant, depth, folder):
    """Microseconds of CPU for a request."""
    inner, outer = free_port(), free_port()
    with contextlib.ExitStack() as stack:
        own = ["--tls-cert", folder / "cert.pem", "--tls-key", folder / "key.pem"] if variant == "own TLS" else []
        scheme = "tls:" if own else ""
        server = [binary, "serve", "--listen", f"{scheme}127.0.0.1:{inner}", "--http", "off", *own]
        pids = [stack.enter_context(running(server, inner, folder))]
        port = inner
        if variant in PROXIES:
            command = PROXIES[variant][0](installed(variant), folder, outer, inner)
            pids.append(stack.enter_context(running(command, outer, folder)))
            port = outer
        before = sum(map(cpu_seconds, pids))
        tls = ["--tls-ca", str(folder / "ca.pem")] if variant != "plain" else []
        address = f"127.0.0.1:{port}" if variant == "plain" else f"tls:localhost:{port}"
        requests = 600_000 if depth > 1 else 150_000
        bench = [binary, "bench", "cycle", "--address", address, *tls, "-c", "64", "-d", str(depth),
                 "--payload", "100", "--requests", str(requests)]
        subprocess.run(bench, check=True, stdout=subprocess.DEVNULL)
        return (sum(map(cpu_seconds, pids)) - before) * 1e6 / requests


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("binary", type=program)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--depth", type=int, action="append")
    options = parser.parse_args()
    variants = ["plain", "own TLS", *filter(installed, PROXIES)]
    for name in PROXIES:
        if name not in variants:
            print(f"{name} is not installed: skipped")
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        certificate(folder)
        dearer = False
        for depth in options.depth or [1, 16]:
            rounds = [{variant: measure(options.binary, variant, depth, folder) for variant in variants}
                      for _ in range(options.rounds)]
            print(f"depth {depth}: us of CPU for a request, and the ratio to plain (least, most)")
            for variant in variants:
                ratios = [one[variant] / one["plain"] for one in rounds]
                cost = statistics.median(one[variant] for one in rounds)
                print(f"  {variant:8}{cost:9.3f}{statistics.median(ratios):9.3f}"
                      f"  ({min(ratios):.3f} - {max(ratios):.3f})")
                own = statistics.median(one["own TLS"] for one in rounds)
                dearer |= variant in PROXIES and own >= cost
    sys.exit("a proxy is cheaper than TLS of the server's own" if dearer else 0)


if __name__ == "__main__":
    main()
