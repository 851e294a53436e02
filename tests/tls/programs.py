"""Programs that people use against TLS listeners: OpenSSL's s_client, curl, and Python's ssl, with keys
of ECDSA and of RSA. What is sound is served; what is old, or not what it says, is not."""

import pathlib
import socket
import ssl
import subprocess
import sys
import tempfile

from listener import KINDS, PATIENCE, certificate, openssl, serve

PUT = b'{"request":"put","queue":"q","job":{},"pri":1}\n'
GET = b'{"request":"get","queues":["q"]}\n'


def s_client(address, authority, *flags, text=b""):
    """What s_client says, until it ends or has had an answer to a line."""
    command = ["openssl", "s_client", "-connect", address, "-servername", "localhost", "-CAfile", authority,
               "-verify_return_error", "-verify_hostname", "localhost", *flags]
    client = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT)
    client.stdin.write(text)
    client.stdin.flush()
    said = b""
    for line in client.stdout:
        said += line
        if b'{"status"' in line or (b"Timeout" in line and not text):
            break
    client.kill()
    client.wait(PATIENCE)
    return said.decode(errors="replace")


def check_s_client(address, authority, stranger, folder):
    for version, name in [("-tls1_2", "TLSv1.2"), ("-tls1_3", "TLSv1.3")]:
        said = s_client(address, authority, version, text=PUT)
        assert '{"status":"ok","id":' in said and name in said, said
        assert "Verify return code: 0 (ok)" in said or "Verification: OK" in said, said
    for version in ["-tls1", "-tls1_1"]:
        said = s_client(address, authority, version, "-cipher", "DEFAULT@SECLEVEL=0", text=PUT)
        assert "status" not in said and " alert " in said, said
    said = s_client(address, stranger, text=PUT)
    assert '{"status"' not in said and "verify error" in said, said
    said = s_client(address, authority, "-tls1_2", text=b"R\n")
    assert "no renegotiation" in said, said
    session, early = folder / "session", folder / "early"
    early.write_bytes(PUT)
    s_client(address, authority, "-tls1_3", "-sess_out", session, text=PUT)
    assert session.exists(), "no ticket"
    said = s_client(address, authority, "-tls1_3", "-sess_in", session, "-early_data", early, text=GET)
    assert "Reused, TLSv1.3" in said and "Early data was accepted" not in said, said


def check_curl(address, authority, stranger):
    port = address.rpartition(":")[2]

    def curl(*arguments):
        command = ["curl", "--silent", "--show-error", "--max-time", str(PATIENCE), *arguments]
        done = subprocess.run(map(str, command), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        return done.returncode, done.stdout

    health = f"https://localhost:{port}/health"
    status, body = curl("--cacert", authority, health)
    assert status == 0 and body, (status, body)
    status, body = curl("--cacert", authority, "-d", '{"payload":1}', "-H", "Content-Type: application/json",
                        f"https://localhost:{port}/api/v1/queues/q/jobs")
    assert status == 0 and b'"id":' in body, (status, body)
    assert curl("--cacert", stranger, health)[0] == 60, "an authority that is not the server's"
    other = ["--resolve", f"other.example:{port}:127.0.0.1", f"https://other.example:{port}/health"]
    assert curl("--cacert", authority, *other)[0] == 60, "a certificate for another name"
    assert curl("--cacert", authority, "--tls-max", "1.1", health)[0] == 35, "an old version"


def check_python(address, authority):
    host, _, port = address.rpartition(":")
    context = ssl.create_default_context(cafile=str(authority))
    for version in [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3]:
        context.minimum_version = context.maximum_version = version
        with socket.create_connection((host, int(port)), timeout=PATIENCE) as plain:
            with context.wrap_socket(plain, server_hostname="localhost") as client:
                lines = client.makefile("rwb")
                lines.write(PUT * 50 + GET * 50)
                lines.flush()
                answers = [lines.readline() for _ in range(100)]
                assert all(b'"ok"' in answer for answer in answers), answers
                # A close_notify of one side; the other one answers with its own.
                client.unwrap()


def check(binary, kind):
    with tempfile.TemporaryDirectory() as folder, tempfile.NamedTemporaryFile() as log:
        folder = pathlib.Path(folder)
        authority, chain, key = certificate(folder, kind)
        stranger = folder / "stranger.pem"
        openssl("req", "-x509", "-newkey", *KINDS["ECDSA"], "-nodes", "-days", "30", "-subj", "/CN=stranger",
                "-keyout", folder / "stranger.key", "-out", stranger)
        server, (lines, http) = serve(binary, chain, key, log)
        try:
            check_s_client(lines, authority, stranger, folder)
            check_curl(http, authority, stranger)
            check_python(lines, authority)
        finally:
            server.terminate()
            assert server.wait(PATIENCE) == 0, "the server has not ended well"


for each in KINDS:
    check(sys.argv[1], each)
print(f"s_client, curl and Python agree with listeners with keys of {' and '.join(KINDS)}")
