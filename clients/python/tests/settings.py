"""Certificates and users for the servers of tests."""

from __future__ import annotations

import datetime
import hashlib
import ipaddress
from pathlib import Path
from typing import Any, Mapping, Sequence

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


def write_certificate(folder: Path) -> "tuple[str, str]":
    """A certificate for 127.0.0.1 that is its own authority: its file and that of its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.datetime.now(datetime.timezone.utc)
    address = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=30))
        .add_extension(x509.SubjectAlternativeName([address]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem, key_file = folder / "server.pem", folder / "server.key"
    pem.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    key_file.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    key_file.chmod(0o600)
    return str(pem), str(key_file)


def write_users(folder: Path, users: Sequence[Mapping[str, Any]]) -> str:
    """A settings file with users: `name`, `token`, `allow`."""
    lines = []
    for user in users:
        digest = hashlib.sha256(user["token"].encode()).hexdigest()
        rights = ", ".join(f'"{right}"' for right in user["allow"])
        lines += ["[[user]]", f'name = "{user["name"]}"']
        lines += [f'tokens = ["sha256:{digest}"]', f"allow = [{rights}]", ""]
    path = folder / "jobs.toml"
    path.write_text("\n".join(lines))
    return str(path)
