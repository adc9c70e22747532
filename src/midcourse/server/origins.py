"""From where a request may come: the Host it names, the page that sent it, the sites that may read the answer.

A server on loopback is in reach of every web page its user opens. A page may have its own name resolve to 127.0.0.1
(DNS rebinding): the Host tells. It may post to us with the user's cookie: the Origin tells.
"""

import re
from collections.abc import Iterable, Sequence
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Final, NamedTuple

from starlette.datastructures import Headers
from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp, Receive, Scope, Send

from midcourse.errors import AccessDenied, InvalidInput
from midcourse.server.problems import problem_response

SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS"})
"""Methods that change nothing."""
LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})

_HOST: Final = re.compile(r"(?:\[([0-9A-Fa-f:.]{2,45})\]|([A-Za-z0-9_][A-Za-z0-9_.-]{0,252}))(?::(\d{0,5}))?", re.ASCII)
_ORIGIN: Final = re.compile(r"(https?)://([^/?#@\s]+)", re.ASCII | re.IGNORECASE)
_DEFAULT_PORTS: Final = {"http": 80, "https": 443}
_ANY_ADDRESS: Final = frozenset({"0.0.0.0", "::"})


class OriginPlace(NamedTuple):
    """The place that a request goes to or comes from, in one form."""

    scheme: str
    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}" + ("" if self.port == _DEFAULT_PORTS[self.scheme] else f":{self.port}")


def place_of(scheme: str, authority: str) -> OriginPlace | None:
    """Return ``authority`` (``host``, ``host:port``, ``[address]:port``) in one form; None if it is malformed."""
    found = _HOST.fullmatch(authority)
    if found is None:
        return None
    address, name, port = found.groups()
    if address is not None:
        try:
            host = str(IPv6Address(address))
        except ValueError:
            return None
    else:
        host = name.lower().removesuffix(".")
    number = int(port) if port else _DEFAULT_PORTS.get(scheme, 0)
    return OriginPlace(scheme, host, number) if host and 0 < number < 65536 else None


def origin_named(text: str) -> OriginPlace | None:
    """Return an Origin as browsers send it; None for ``null`` and all else that is no address of a site."""
    found = _ORIGIN.fullmatch(text)
    return place_of(found[1].lower(), found[2]) if found else None


class HostCheck:
    """Refuses requests that name another host than this server's: 421 ``host_not_allowed``. Ports do not matter.

    Loopback is always allowed. A server that listens on every address (``0.0.0.0``, ``::``) takes every address as its
    name as well: a page whose name was bent to us still sends that name.
    """

    def __init__(self, app: ASGIApp, *, allowed_hosts: Iterable[str] = ()) -> None:
        self._app = app
        self._names = LOOPBACK | {host_allowed(host) for host in allowed_hosts}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan" or self._allows(Headers(scope=scope).getlist("host")):
            await self._app(scope, receive, send)
            return
        answer = problem_response(
            421,
            "host_not_allowed",
            "This server does not go by the name in the request's Host header. "
            "Use the address it printed when it started, or start it with that name as an allowed host.",
        )
        await answer(scope, receive, send)

    def _allows(self, hosts: Sequence[str]) -> bool:
        place = place_of("http", hosts[0]) if len(hosts) == 1 else None
        if place is None:
            return False
        if place.host in self._names:
            return True
        address = _address(place.host)
        if address is None:
            return False
        return address.is_loopback or not self._names.isdisjoint(_ANY_ADDRESS)


def host_allowed(host: str) -> str:
    """Check a host name of the server, for comparison with requests.

    Raises:
        InvalidInput: it cannot be one.
    """
    bare = f"[{host}]" if ":" in host and not host.startswith("[") and host.count(":") > 1 else host
    place = place_of("http", bare)
    if place is None:
        raise InvalidInput(
            f"{host!r} cannot be an allowed host. Give a name or an address, such as agents.example.org.",
            field="allowed_hosts",
        )
    return place.host


def _address(host: str) -> IPv4Address | IPv6Address | None:
    try:
        return ip_address(host)
    except ValueError:
        return None


class OriginCheck:
    """Refuses changes that come from other sites' pages: 403 ``origin_not_allowed``.

    Programs send no Origin and pass. What a browser sends must come from this server's own pages, or from a site in
    ``allowed``. See ``check_cookie_request`` for requests that are known by their cookie.
    """

    def __init__(self, app: ASGIApp, *, allowed: Iterable[str] = ()) -> None:
        self._app = app
        self._allowed = frozenset(allowed_origins(allowed))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["method"] not in SAFE:
            headers = Headers(scope=scope)
            origins = headers.getlist("origin")
            if origins and not self._allows(origins, scope["scheme"], headers.get("host", "")):
                answer = problem_response(
                    403,
                    "origin_not_allowed",
                    "This request comes from the page of another site, which may not change anything here. "
                    "Start the server with that site as an allowed origin if it should.",
                )
                await answer(scope, receive, send)
                return
        await self._app(scope, receive, send)

    def _allows(self, origins: Sequence[str], scheme: str, host: str) -> bool:
        origin = origin_named(origins[0]) if len(origins) == 1 else None
        return origin is not None and (str(origin) in self._allowed or origin == place_of(scheme, host))


def check_own_page(scope: Scope) -> None:
    """Refuse what comes from any other page than this server's own, also from a site that is an allowed origin.

    Raises:
        AccessDenied: ``origin_not_allowed``.
    """
    headers = Headers(scope=scope)
    origins = headers.getlist("origin")
    if origins and origin_named(origins[0]) != place_of(str(scope["scheme"]), headers.get("host", "")):
        raise AccessDenied(
            "A browser logs in on this server's own page, and this request comes from another one.",
            code="origin_not_allowed",
        )


def check_cookie_request(method: str, headers: Headers) -> None:
    """Check that a change with a cookie comes from our page.

    Browsers send Origin with every change (``OriginCheck`` has checked it). One that does not must at least have a
    Sec-Fetch-Site that names no other site.

    Raises:
        AccessDenied: ``origin_not_allowed``: it has neither.
    """
    if method in SAFE or headers.get("origin"):
        return
    if headers.get("sec-fetch-site") not in ("same-origin", "none"):
        raise AccessDenied(
            "A change that is authorized by the cookie must come from this server's own page, and this request does "
            "not say where it comes from. Programs send the token in the header Authorization: Bearer.",
            code="origin_not_allowed",
        )


def allowed_origins(origins: Iterable[str]) -> list[str]:
    """Return the origins as browsers spell them.

    Raises:
        InvalidInput: one is ``*``, ``null``, or more or less than ``scheme://host[:port]``.
    """
    places: list[str] = []
    for text in origins:
        place = origin_named(text)
        if place is None:
            raise InvalidInput(
                f"{text!r} cannot be an allowed origin. Name each site by itself, such as https://agents.example.org; "
                "'*' would let every page act with its visitor's rights.",
                field="allowed_origins",
            )
        places.append(str(place))
    return places


class Cors(CORSMiddleware):
    """Lets the pages of ``origins`` call ``methods`` of this API and read answers. Without origins it adds nothing."""

    def __init__(self, app: ASGIApp, *, methods: Sequence[str], origins: Iterable[str] = ()) -> None:
        super().__init__(
            app,
            allow_origins=allowed_origins(origins),
            allow_methods=methods,
            allow_headers=("Authorization", "Content-Type", "Idempotency-Key", "If-Match", "Last-Event-ID"),
            allow_credentials=True,
            expose_headers=("X-Session-Id", "ETag", "Location", "Retry-After"),
            max_age=600,
        )
        self._is_on = bool(self.allow_origins)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._is_on:
            await super().__call__(scope, receive, send)
        else:
            await self.app(scope, receive, send)
