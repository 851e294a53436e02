"""Where the server is, and how to get in: `jobcentre://host:port`, `jobcentre+tls://`,
`jobcentre+unix:///path`."""

from __future__ import annotations

import os
import ssl
from dataclasses import dataclass, field, replace
from typing import Optional
from urllib.parse import parse_qsl, unquote, urlsplit

DEFAULT_URL = "jobcentre://127.0.0.1:11400"
DEFAULT_PORT = 11400
_PARAMETERS = ("ca", "cert", "key", "server_name", "token_file")


@dataclass(frozen=True)
class Address:
    """An address that was parsed. `path` is that of a Unix socket."""

    host: str = "127.0.0.1"
    port: int = DEFAULT_PORT
    path: Optional[str] = None
    tls: bool = False
    ca: Optional[str] = None
    cert: Optional[str] = None
    key: Optional[str] = None
    server_name: Optional[str] = None
    # Not shown in representations and messages.
    token: Optional[str] = field(default=None, repr=False)

    def __str__(self) -> str:
        if self.path is not None:
            return f"unix:{self.path}"
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'tls:' if self.tls else ''}{host}:{self.port}"

    def ssl_context(self) -> Optional[ssl.SSLContext]:
        """The context for a TLS connection; None without TLS."""
        if not self.tls:
            return None
        context = ssl.create_default_context(cafile=self.ca)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        if self.cert is not None:
            context.load_cert_chain(self.cert, self.key)
        return context


def resolve(url: Optional[str] = None, token: Optional[str] = None) -> Address:
    """The address of `url`, or of $JOBCENTRE_URL, or the default; with the token, or that of the
    URL, its `token_file`, or $JOBCENTRE_TOKEN."""
    address = parse(url or os.environ.get("JOBCENTRE_URL") or DEFAULT_URL)
    token = token or address.token or os.environ.get("JOBCENTRE_TOKEN") or None
    return replace(address, token=token)


def parse(url: str) -> Address:
    """Raises ValueError with a sentence that says what is wrong."""
    parts = urlsplit(url)
    if parts.scheme not in ("jobcentre", "jobcentre+tls", "jobcentre+unix"):
        raise ValueError(
            f"the address {_shown(url)!r} must begin with jobcentre://, jobcentre+tls:// or "
            "jobcentre+unix://"
        )
    given = dict(parse_qsl(parts.query, strict_parsing=True)) if parts.query else {}
    unknown = sorted(set(given) - set(_PARAMETERS))
    if unknown:
        raise ValueError(
            f"the address {_shown(url)!r} has the unknown parameter {unknown[0]!r}: there are "
            + ", ".join(_PARAMETERS)
        )
    token = unquote(parts.password or parts.username or "") or None
    if "token_file" in given:
        with open(given["token_file"], encoding="utf-8") as file:
            token = file.read().strip() or None
    if parts.scheme == "jobcentre+unix":
        if not parts.path or parts.hostname:
            raise ValueError("the address of a Unix socket is jobcentre+unix:///PATH")
        return Address(path=unquote(parts.path), token=token)
    try:
        port = parts.port
    except ValueError:
        raise ValueError(f"the port of {_shown(url)!r} must be 1 to 65535") from None
    if parts.path not in ("", "/"):
        raise ValueError(f"the address {_shown(url)!r} must end after the port")
    tls = parts.scheme == "jobcentre+tls"
    if not tls and any(name in given for name in ("ca", "cert", "key", "server_name")):
        raise ValueError("ca, cert, key and server_name need an address of jobcentre+tls://")
    return Address(
        host=parts.hostname or "127.0.0.1",
        port=port or DEFAULT_PORT,
        tls=tls,
        ca=given.get("ca"),
        cert=given.get("cert"),
        key=given.get("key"),
        server_name=given.get("server_name"),
        token=token,
    )


def _shown(url: str) -> str:
    """The URL without a token, for a message."""
    scheme, separator, rest = url.partition("://")
    return f"{scheme}{separator}{rest.rpartition('@')[2]}"
