"""The common rules of HTTP for every address: HEAD, OPTIONS, the methods, one rule for bodies, and a prefix."""

import asyncio
import re
from collections.abc import Sequence
from typing import Final

from fastapi.routing import iter_route_contexts
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.routing import BaseRoute, Mount, compile_path
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from midcourse.errors import InvalidInput

_ROOT: Final = re.compile(r"(/[A-Za-z0-9._~-]*[A-Za-z0-9_~-])+")
_FILES: Final = compile_path("/{path:path}")[0]
IMPLIED: Final = frozenset({"HEAD", "OPTIONS"})
"""Methods that no route names: the one goes with GET, the other with everything."""


def path_in(scope: Scope) -> str:
    """Return the path of a request by this server's routes, without the prefix of a proxy or a mount."""
    return str(scope["path"]).removeprefix(prefix_of(scope))


def prefix_of(scope: Scope) -> str:
    """Return the prefix of every path that a client sees, such as ``/midcourse``; empty without one."""
    return str(scope.get("root_path", ""))


def address_in(scope: Scope, path: str) -> str:
    """``path`` of this server as a client sees it: for links, redirects and ``Location``."""
    return f"{prefix_of(scope)}{path}"


def check_root_path(path: str) -> str:
    """Check the prefix that a proxy removes, as answers put it before every path: ``/midcourse``, or empty.

    Raises:
        InvalidInput: it is no path.
    """
    bare = path.rstrip("/")
    if bare and _ROOT.fullmatch(bare) is None:
        raise InvalidInput(
            f"{path!r} cannot be a root path. Give what the proxy takes away from the path, such as /midcourse.",
            field="root_path",
        )
    return bare


class Prefixed:
    """Remove the prefix of a path that still has it, past the proxy or from one that removes nothing.

    Not where the prefix is also the beginning of an address: that would be ambiguous.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        prefix = prefix_of(scope) if scope["type"] == "http" else ""
        # The server puts the prefix before every path, as if a proxy had taken it away.
        if prefix and not f"{prefix}/".startswith("/api/") and f"{scope['path']}/".startswith(f"{prefix}{prefix}/"):
            scope = {**scope, "path": str(scope["path"]).removeprefix(prefix)}
        await self._app(scope, receive, send)


class Addresses:
    """Every path that there is, with its methods."""

    def __init__(self, routes: Sequence[BaseRoute]) -> None:
        self._known = list[tuple[re.Pattern[str], frozenset[str]]]()
        for one in iter_route_contexts(routes):
            if isinstance(one.original_route, Mount):  # the console's files: at every address but the API's
                self._known.append((_FILES, frozenset({"GET"})))
            elif one.path is not None and one.methods:
                self._known.append((compile_path(one.path)[0], frozenset(one.methods)))

    @property
    def methods(self) -> tuple[str, ...]:
        """The methods that some address takes."""
        return tuple(sorted({method for _, methods in self._known for method in methods} - IMPLIED))

    def at(self, path: str) -> tuple[str, ...]:
        """Return the methods of a path; none if there is nothing."""
        found = {
            method
            for pattern, methods in self._known
            if pattern.match(path) and not (pattern is _FILES and path.startswith("/api/"))
            for method in methods
        }
        if not found:
            return ()
        return tuple(sorted(found | {"OPTIONS"} | ({"HEAD"} if "GET" in found else set())))


class Conventions:
    """Answers HEAD as GET without its body, OPTIONS with the methods that there are, and If-None-Match with 304.

    Every body is read as JSON, with any Content-Type: ``curl -d`` names a form's. The origin of a request is checked by
    its Origin header before, not by its Content-Type.
    """

    def __init__(self, app: ASGIApp, *, addresses: Addresses) -> None:
        self._app = app
        self._addresses = addresses

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        path = path_in(scope)
        methods = self._addresses.at(path)
        if scope["method"] == "OPTIONS" and methods:
            await Response(status_code=204, headers={"Allow": ", ".join(methods)})(scope, receive, send)
            return
        seen = Headers(scope=scope).get("if-none-match")
        if seen is not None and scope["method"] in ("GET", "HEAD"):
            send = _unless_seen(seen, send)
        if scope["method"] == "HEAD":
            await _head(self._app, {**scope, "method": "GET"}, receive, send)
        else:
            if path.startswith("/api/"):
                scope = {**scope, "headers": list(scope["headers"])}
                MutableHeaders(scope=scope)["Content-Type"] = "application/json"
            await self._app(scope, receive, send)


def bare_tag(tag: str) -> str:
    """Return an entity tag without its quotes, and without the mark of a weak one."""
    return tag.strip().removeprefix("W/").strip('"')


def _unless_seen(seen: str, send: Send) -> Send:
    """Answer 304, without a body, if ``seen`` (If-None-Match) names what would be answered."""
    tags = {bare_tag(one) for one in seen.split(",")}
    is_seen = False

    async def say(message: Message) -> None:
        nonlocal is_seen
        if message["type"] == "http.response.start" and message["status"] == 200:
            headers = MutableHeaders(raw=list(message["headers"]))
            is_seen = "etag" in headers and not tags.isdisjoint({"*", bare_tag(headers["etag"])})
            if is_seen:
                del headers["content-length"], headers["content-type"]
                message = {**message, "status": 304, "headers": headers.raw}
        elif is_seen and message["type"] == "http.response.body":
            message = {**message, "body": b""}
        await send(message)

    return say


async def _head(app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
    """Send the head of the answer to a GET. A stream is ended at once, as its body is not read."""
    begun = asyncio.Event()

    async def hear() -> Message:
        hearing, waiting = asyncio.ensure_future(receive()), asyncio.ensure_future(begun.wait())
        try:
            await asyncio.wait({hearing, waiting}, return_when=asyncio.FIRST_COMPLETED)
            return {"type": "http.disconnect"} if begun.is_set() else hearing.result()
        finally:
            hearing.cancel()
            waiting.cancel()

    async def say(message: Message) -> None:
        if message["type"] == "http.response.start":
            await send(message)
            await send({"type": "http.response.body", "body": b"", "more_body": False})
            begun.set()

    await app(scope, hear, say)
