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
    certificate = _certificate("127.0.0.1", key, "127.0.0.1", key, is_authority=True)
    return _write(folder, "server", certificate, key)


def write_client_certificate(folder: Path) -> "tuple[str, str, str]":
    """An authority for clients, and a certificate of it: its file, that of the certificate, and
    that of its key."""
    issuer, key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    authority = _certificate("clients", issuer, "clients", issuer, is_authority=True)
    certificate = _certificate("web-1", key, "clients", issuer, is_authority=False)
    trusted, _ = _write(folder, "clients", authority, issuer)
    return (trusted, *_write(folder, "web-1", certificate, key))


def _certificate(
    name: str,
    key: ec.EllipticCurvePrivateKey,
    issuer_name: str,
    issuer: ec.EllipticCurvePrivateKey,
    *,
    is_authority: bool,
) -> x509.Certificate:
    now = datetime.datetime.now(datetime.timezone.utc)
    address = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
    constraints = x509.BasicConstraints(ca=is_authority, path_length=None)
    return (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
        .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, issuer_name)]))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=30))
        .add_extension(x509.SubjectAlternativeName([address]), critical=False)
        .add_extension(constraints, critical=True)
        .sign(issuer, hashes.SHA256())
    )


def _write(
    folder: Path, name: str, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey
) -> "tuple[str, str]":
    pem, key_file = folder / f"{name}.pem", folder / f"{name}.key"
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
