"""A server with TLS listeners, and its certificate."""

import json
import pathlib
import subprocess
import time

KINDS = {"ECDSA": ["ec", "-pkeyopt", "ec_paramgen_curve:P-256"], "RSA": ["rsa:2048"]}
PATIENCE = 60


def openssl(*arguments):
    subprocess.run(["openssl", *map(str, arguments)], check=True, stderr=subprocess.DEVNULL)


def certificate(folder, kind):
    """An authority, and a certificate of it for this machine."""
    authority, authority_key = folder / "ca.pem", folder / "ca.key"
    openssl("req", "-x509", "-newkey", *KINDS["ECDSA"], "-nodes", "-days", "30", "-subj", "/CN=test",
            "-addext", "keyUsage=critical,keyCertSign,cRLSign", "-keyout", authority_key,
            "-out", authority)
    key, request, chain = folder / "key.pem", folder / "request.pem", folder / "cert.pem"
    openssl("req", "-newkey", *KINDS[kind], "-nodes", "-subj", "/CN=localhost",
            "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1",
            "-addext", "extendedKeyUsage=serverAuth", "-keyout", key, "-out", request)
    openssl("x509", "-req", "-in", request, "-CA", authority, "-CAkey", authority_key, "-days", "30",
            "-copy_extensions", "copy", "-out", chain)
    return authority, chain, key


def serve(binary, chain, key, log):
    """A server, and its addresses."""
    command = [binary, "serve", "--listen", "tls:127.0.0.1:0", "--http", "tls:127.0.0.1:0",
               "--log-format", "json", "--tls-cert", chain, "--tls-key", key]
    process = subprocess.Popen(command, stderr=log)
    end = time.monotonic() + PATIENCE
    while b'"serving"' not in pathlib.Path(log.name).read_bytes():
        assert process.poll() is None and time.monotonic() < end, "the server does not start"
        time.sleep(0.05)
    lines = map(json.loads, pathlib.Path(log.name).read_text().splitlines())
    addresses = [line["address"] for line in lines if line["message"] == "listening"]
    return process, [address.removeprefix("tls:") for address in addresses]
