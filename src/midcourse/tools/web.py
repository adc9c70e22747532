"""HTTP requests for agents: to public addresses only, within limits, and with the call's key.

What may be reached is in ``addresses``; how a request is made in ``http_request``.
"""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Final

from midcourse.tools.http_request import Method, RequestLimits, WebResponse, hosts, library, request
from midcourse.tools.tool_errors import bad_argument
from midcourse.tools.toolset import Toolset, key_of_this_call

LIMIT: Final = 5_000_000
TIMEOUT: Final = 30.0


def web(
    *,
    allow_hosts: Sequence[str] | None = None,
    allow_private: bool = False,
    limit: int = LIMIT,
    timeout: float = TIMEOUT,
) -> "Web":
    """Tools that make HTTP requests. The same set for the same parameters. They need the extra ``midcourse[web]``.

    - ``allow_hosts``: the only hosts that may be asked, like ``["api.example.com", "*.example.org"]``; all by default.
    - ``allow_private``: also reach this machine and its network, which are refused by default, whatever names them.
    - ``limit``: the largest answer, in bytes. ``timeout``: seconds for a request with its redirects.
    """
    if isinstance(allow_hosts, str):
        raise bad_argument("allow_hosts is a list of hosts, like ['api.example.com'].", "allow_hosts")
    if limit < 0 or timeout <= 0:
        raise bad_argument("limit is in bytes, timeout in seconds and more than 0.", "limit")
    library()
    return _made(allow_hosts=hosts(allow_hosts), allow_private=allow_private, limit=limit, timeout=timeout)


class Web(Toolset):
    """The tools of one set of limits."""

    def __init__(self, *, allow_hosts: tuple[str, ...] | None, allow_private: bool, limit: int, timeout: float) -> None:
        super().__init__(web, allow_hosts=allow_hosts, allow_private=allow_private, limit=limit, timeout=timeout)
        self._limits = RequestLimits(allow_hosts=allow_hosts, allow_private=allow_private, limit=limit, timeout=timeout)
        # A request keeps its own time; an abandoned one may land as long as it would have been waited for.
        self.get = self._tool(self._get, "get", "http_get", effect="read")
        self.put = self._tool(self._put, "put", "http_put", effect="idempotent", settle=timeout)
        self.delete = self._tool(self._delete, "delete", "http_delete", effect="idempotent", settle=timeout)
        self.post = self._tool(self._post, "post", "http_post", effect="write", settle=timeout)

    async def _get(self, url: str, headers: Mapping[str, str] | None = None) -> WebResponse:
        """Fetch what is at a URL."""
        return await request("GET", url, limits=self._limits, headers=headers)

    async def _put(
        self, url: str, body: str, content_type: str = "application/json", headers: Mapping[str, str] | None = None
    ) -> WebResponse:
        """Put a body at a URL, in place of what is there."""
        return await self._send("PUT", url, body, content_type, headers)

    async def _delete(self, url: str, headers: Mapping[str, str] | None = None) -> WebResponse:
        """Delete what is at a URL."""
        return await request("DELETE", url, limits=self._limits, headers=headers, key=key_of_this_call())

    async def _post(
        self, url: str, body: str, content_type: str = "application/json", headers: Mapping[str, str] | None = None
    ) -> WebResponse:
        """Send a body to a URL. What that does cannot be taken back."""
        return await self._send("POST", url, body, content_type, headers)

    async def _send(
        self, method: Method, url: str, body: str, content_type: str, headers: Mapping[str, str] | None
    ) -> WebResponse:
        named = {"content-type": content_type, **(headers or {})}
        return await request(method, url, limits=self._limits, headers=named, body=body, key=key_of_this_call())


_made: Final = cache(Web)
