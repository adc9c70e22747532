"""A server's address, and the caller's token. No sentence made here holds a token."""

import ipaddress
import os
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from midcourse.errors import InvalidInput

URL_VARIABLE: Final = "MIDCOURSE_URL"
TOKEN_VARIABLE: Final = "MIDCOURSE_TOKEN"
_EXAMPLE: Final = "http://127.0.0.1:8420"


class ServerAddress(NamedTuple):
    """A server's URL without a slash at its end, and whether it is on this machine."""

    url: str
    is_loopback: bool


def address_of(given: str | None) -> ServerAddress:
    """Return the server at ``given``, or at ``MIDCOURSE_URL``.

    Raises:
        InvalidInput: neither is the address of a server.
    """
    url = (given or os.environ.get(URL_VARIABLE) or "").strip()
    if not url:
        raise InvalidInput(
            f"No server is named. Give its address, such as '{_EXAMPLE}', or set {URL_VARIABLE}.", field="url"
        )
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        raise _no_address("it cannot be read") from None
    if parts.scheme not in ("http", "https") or not host:
        raise _no_address("it begins with http:// or https://, and a host follows")
    if parts.query or parts.fragment or parts.username or parts.password:
        # Not repeated: what was pasted may be a link with a token in it.
        raise _no_address(f"it has no query, user or password; a token is given as token=… or {TOKEN_VARIABLE}")
    path = parts.path.rstrip("/").removesuffix("/api/v1").rstrip("/")
    shown = f"[{host}]" if ":" in host else host
    return ServerAddress(f"{parts.scheme}://{shown}{f':{port}' if port else ''}{path}", _is_loopback(host))


def _no_address(why: str) -> InvalidInput:
    return InvalidInput(f"The url is not the address of a server, such as '{_EXAMPLE}': {why}.", field="url")


def _is_loopback(host: str) -> bool:
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def token_of(given: str | None) -> str | None:
    """Return the token ``given``, or the one in ``MIDCOURSE_TOKEN``.

    Raises:
        InvalidInput: it cannot be one. The sentence does not repeat it.
    """
    token = (given if given is not None else os.environ.get(TOKEN_VARIABLE, "")).strip()
    if not token:
        return None
    if not is_plain(token):
        raise InvalidInput("The token holds a space or a sign that no token has. Copy it again.", field="token")
    return token


def is_plain(text: str) -> bool:
    """Return True if ``text`` can be the value of a header."""
    return text.isascii() and text.isprintable() and " " not in text
