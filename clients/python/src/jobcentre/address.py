"""Where the server is, and how to get in: `jobcentre://host:port`, `jobcentres://`,
`jobcentre+unix:///path`, `unix:path`, `host:port`. All clients and the program `jobcentre` take the
same texts: `clients/scenarios/addresses.json`."""

from __future__ import annotations

import os
import re
import ssl
from dataclasses import dataclass, field, replace
from typing import Dict, Optional, Tuple
from urllib.parse import unquote

DEFAULT_URL = "jobcentre://127.0.0.1:11400"
DEFAULT_PORT = 11400
_PARAMETERS = ("ca", "cert", "key", "server_name", "token_file")
_SCHEMES = ("jobcentre", "jobcentres", "jobcentre+tls", "jobcentre+unix")
_HELP = (
    "give HOST:PORT, tls:HOST:PORT, unix:PATH, jobcentre://HOST:PORT or, for TLS, "
    "jobcentres://HOST:PORT"
)
_BRACKETED = re.compile(r"\[(?P<host>[0-9A-Za-z.:%_-]+)\](?::(?P<port>.*))?")
_PLACE = re.compile(r"(?P<host>[0-9A-Za-z._%-]*)(?::(?P<port>.*))?")


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
    """Raises ValueError with a sentence that says what is wrong, and does not show a token."""
    if url.startswith("unix:"):
        return Address(path=_socket(url[5:].removeprefix("//")))
    scheme, separator, rest = url.partition("://")
    if separator:
        return _of_url(scheme, rest)
    if "@" in url or "?" in url:
        raise ValueError(f"a token and parameters need a URL: {_HELP}")
    host, port = _host_and_port(url.removeprefix("tls:"), None)
    return Address(host=host, port=port, tls=url.startswith("tls:"))


def _of_url(scheme: str, rest: str) -> Address:
    if scheme in ("http", "https"):
        raise ValueError(
            f"'{scheme}://' is the address of an HTTP listener, and this client needs the "
            f"listener for lines: {_HELP}"
        )
    if scheme not in _SCHEMES:
        raise ValueError(f"the scheme '{scheme}' is unknown: {_HELP}")
    rest, _, query = rest.partition("?")
    if scheme == "jobcentre+unix":
        user, slash, path = rest.partition("/")
        if user and not user.endswith("@"):
            raise ValueError(f"the path of the socket is missing: {_HELP}")
        address = Address(path=_socket(unquote(slash + path)))
    else:
        user, at, place = rest.rpartition("@")
        user += at
        place = place.removesuffix("/")
        if "/" in place:
            raise ValueError(f"nothing may follow the port but parameters: {_HELP}")
        host, port = _host_and_port(place, DEFAULT_PORT)
        address = Address(host=host, port=port, tls=scheme != "jobcentre")
    given = _parameters(query, address.tls)
    name, colon, password = user.removesuffix("@").partition(":")
    token = unquote(password if colon else name) or None
    if "token_file" in given:
        with open(given["token_file"], encoding="utf-8") as file:
            token = file.read().strip() or None
    return replace(
        address,
        token=token,
        ca=given.get("ca"),
        cert=given.get("cert"),
        key=given.get("key"),
        server_name=given.get("server_name"),
    )


def _parameters(query: str, tls: bool) -> Dict[str, str]:
    given = {}
    for parameter in filter(None, query.split("&")):
        name, _, value = parameter.partition("=")
        if name not in _PARAMETERS:
            raise ValueError(
                f"the parameter '{name}' is unknown: there are {', '.join(_PARAMETERS)}"
            )
        if name != "token_file" and not tls:
            raise ValueError(f"the parameter '{name}' is for TLS: jobcentres://HOST:PORT")
        given[name] = unquote(value)
        if not given[name]:
            raise ValueError(f"the parameter '{name}' is empty")
    if ("cert" in given) != ("key" in given):
        raise ValueError("the parameters 'cert' and 'key' belong together")
    return given


def _socket(path: str) -> str:
    if not path or "\0" in path:
        raise ValueError(f"the path of the socket is missing: {_HELP}")
    return path


def _host_and_port(place: str, default: Optional[int]) -> Tuple[str, int]:
    """`default` is the port that may be left out."""
    bracketed = _BRACKETED.fullmatch(place)
    if bracketed is None and place.count(":") > 1 and not place.startswith("["):
        raise ValueError(f"an IPv6 address stands in brackets: {_HELP}")
    found = bracketed or _PLACE.fullmatch(place)
    if found is None or (found["port"] is None and default is None):
        raise ValueError(f"'{place}' names no host and port: {_HELP}")
    port = default
    if found["port"] is not None:
        digits = found["port"]
        port = int(digits) if digits.isascii() and digits.isdecimal() else 0
    if port is None or not 1 <= port <= 65535:
        raise ValueError(f"the port must be 1 to 65535: {_HELP}")
    return found["host"] or "127.0.0.1", port
