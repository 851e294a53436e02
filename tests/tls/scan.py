"""What sslyze finds at TLS listeners, with keys of ECDSA and of RSA: nothing that is not as
Mozilla's intermediate recommendations say, nor any of the attacks that it knows."""

import json
import pathlib
import subprocess
import sys
import tempfile
import warnings

from listener import KINDS, PATIENCE, certificate, serve

OLD = ["ssl_2_0", "ssl_3_0", "tls_1_0", "tls_1_1"]
NEW = ["tls_1_2", "tls_1_3"]
SCANS = ["certinfo", "compression", "early_data", "fallback", "heartbleed", "openssl_ccs", "reneg", "resum",
         "robot", "elliptic_curves", "ems", "sslv2", "sslv3", "tlsv1", "tlsv1_1", "tlsv1_2", "tlsv1_3"]


def findings(result):
    """What is wrong with a listener."""
    scan = result["scan_result"]
    assert scan, f"no result: {result['connectivity_error_trace']}"
    for name, part in scan.items():
        if part["status"] == "ERROR":
            yield f"{name} has failed: {part['error_reason']}"
    at = lambda name: scan[name]["result"]
    for version in OLD:
        if at(f"{version}_cipher_suites")["accepted_cipher_suites"]:
            yield f"{version} is accepted"
    for version in NEW:
        if not at(f"{version}_cipher_suites")["accepted_cipher_suites"]:
            yield f"{version} is refused"
    for name, bad in [
        ("tls_1_3_early_data", "supports_early_data"),
        ("tls_compression", "supports_compression"),
        ("openssl_ccs_injection", "is_vulnerable_to_ccs_injection"),
        ("heartbleed", "is_vulnerable_to_heartbleed"),
        ("session_renegotiation", "is_vulnerable_to_client_renegotiation_dos"),
    ]:
        if at(name)[bad]:
            yield f"{name}: {bad}"
    if not at("tls_fallback_scsv")["supports_fallback_scsv"]:
        yield "a downgrade is not noticed"
    if not at("robot")["robot_result"].startswith("NOT_VULNERABLE"):
        yield f"robot: {at('robot')['robot_result']}"
    for deployment in at("certificate_info")["certificate_deployments"]:
        if not deployment["verified_certificate_chain"]:
            yield "its certificate is not trusted"


def scan(binary, kind):
    with tempfile.TemporaryDirectory() as folder, tempfile.NamedTemporaryFile() as log:
        folder = pathlib.Path(folder)
        authority, chain, key = certificate(folder, kind)
        server, addresses = serve(binary, chain, key, log)
        try:
            report = folder / "report.json"
            command = [sys.executable, "-W", "ignore", "-m", "sslyze", "--quiet",
                       "--mozilla_config", "intermediate", "--certinfo_ca_file", authority,
                       "--json_out", report, *(f"--{scan}" for scan in SCANS), *addresses]
            status = subprocess.run(command, timeout=600).returncode
            results = json.loads(report.read_text())["server_scan_results"]
            assert len(results) == len(addresses) == 2, addresses
            wrong = [f"{kind}: {finding}" for result in results for finding in findings(result)]
            if status:
                wrong.append(f"{kind}: not as Mozilla's intermediate configuration")
            return wrong
        finally:
            server.terminate()
            assert server.wait(PATIENCE) == 0, "the server has not ended well"


def main():
    wrong = [finding for kind in KINDS for finding in scan(sys.argv[1], kind)]
    print("\n".join(wrong) or f"sslyze finds nothing at listeners with keys of {' and '.join(KINDS)}")
    sys.exit(bool(wrong))


warnings.simplefilter("ignore")
main()
