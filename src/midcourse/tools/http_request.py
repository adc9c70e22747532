"""One HTTP request within limits: where it may go, how long it may take, how much may come back."""

import asyncio
import base64
import re
import ssl
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from types import ModuleType
from typing import TYPE_CHECKING, Final, Literal

import msgspec

from midcourse.errors import MidcourseError
from midcourse.tools.addresses import addresses_of, check_host, refused
from midcourse.tools.tool_errors import bad_argument, not_installed, too_large, took_too_long

if TYPE_CHECKING:
    import httpx2

Method = Literal["GET", "HEAD", "PUT", "DELETE", "POST"]

_MOST_REDIRECTS: Final = 5
_DROPS: Final = 2.0
"""Seconds for which the body of an answer is read of which little is wanted: its status is there."""
_NOT_YOURS: Final = frozenset(
    {"connection", "content-length", "host", "idempotency-key", "te", "trailer", "transfer-encoding", "upgrade"}
)
# Any other header may hold a key: who was to get it is not who is asked after a redirect to another origin.
_FOR_ANYBODY: Final = frozenset({"accept", "accept-language", "user-agent"})
# Decoders that take time in proportion to the text. A server may name any that Python has, and some take its square.
_CHARSETS: Final = re.compile(
    r"utf[-_]?8|utf[-_]?(16|32)([-_]?[lb]e)?|(us-)?ascii|latin[-_]?1|iso[-_]?8859[-_]\d{1,2}|(cp|windows-)125\d"
    r"|shift[-_]jis|euc[-_](jp|kr)|gb18030|gbk|gb2312|big5|koi8[-_][rtu]",
    re.ASCII | re.IGNORECASE,
)


class WebResponse(msgspec.Struct, frozen=True, kw_only=True):
    """The answer of a server, with any status."""

    status: int
    url: str
    """The URL of the answer, after redirects."""
    headers: dict[str, str]
    body: str
    encoding: Literal["text", "base64"] = "text"


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestLimits:
    allow_hosts: tuple[str, ...] | None
    allow_private: bool
    limit: int
    timeout: float
    cuts: bool = False
    """True to cut an answer at the limit, and where it breaks off or becomes too slow. Else it is refused."""


def library() -> ModuleType:
    """httpx2, which is an extra.

    Raises:
        ToolUnavailable: it is not installed.
    """
    try:
        import httpx2
    except ImportError as error:
        raise not_installed("web", "httpx2", "web") from error
    return httpx2


async def request(
    method: Method,
    url: str,
    *,
    limits: RequestLimits,
    headers: Mapping[str, str] | None = None,
    body: str = "",
    key: str | None = None,
) -> WebResponse:
    """Make one request. A GET or HEAD follows redirects, each checked like the first; nothing else does.

    Raises:
        InvalidInput: the URL, a header or the host is refused; nothing was sent.
        MidcourseError: no connection, no answer in time, or more than the limit.
    """
    library()
    sent = _checked_headers(headers or {})
    if key is not None:
        sent["idempotency-key"] = key
    try:
        async with asyncio.timeout(limits.timeout):
            for _ in range(_MOST_REDIRECTS + 1):
                answer, onward = await _once(method, url, sent, body.encode(), limits)
                if onward is None:
                    return answer
                if _origin(onward) != _origin(url):
                    sent = {name: value for name, value in sent.items() if name in _FOR_ANYBODY}
                url = onward
    except TimeoutError as error:
        raise took_too_long(f"The request to {url}", limits.timeout) from error
    raise MidcourseError(
        f"More than {_MOST_REDIRECTS} redirects, the last to {url}.", code="too_many_redirects", url=url
    )


async def check_address(url: str, *, allow_private: bool) -> None:
    """Refuse an address that no request would go to. With ``allow_private`` its host is not looked up.

    Raises:
        InvalidInput: it is no address, or not a public one.
        MidcourseError: its host cannot be found.
    """
    library()
    target = _parsed(url)
    if not allow_private:
        port = target.port or {"http": 80, "https": 443}[target.scheme]
        await addresses_of(target.raw_host.decode("ascii"), port, url, allow_private=False)


async def _once(
    method: Method, url: str, headers: Mapping[str, str], body: bytes, limits: RequestLimits
) -> "tuple[WebResponse, str | None]":
    """Make one exchange; return the answer, and the redirect to follow, if any."""
    import httpx2

    target = _parsed(url)
    host = target.raw_host.decode("ascii")
    check_host(host, url, limits.allow_hosts)
    port = target.port or {"http": 80, "https": 443}[target.scheme]
    named = {**headers, "host": target.netloc.decode("ascii"), "accept-encoding": "identity"}
    last: Exception | None = None
    for address in await addresses_of(host, port, url, allow_private=limits.allow_private):
        # The request goes to the address that was checked, and certificates are checked against the name. A client of
        # its own for each request: connections to an address must not be shared by the names that lead to it.
        transport = httpx2.AsyncHTTPTransport(verify=_certificates())
        client = httpx2.AsyncClient(transport=transport, trust_env=False, timeout=limits.timeout)
        async with client:
            try:
                outgoing = client.build_request(
                    method,
                    target.copy_with(host=address),
                    headers=named,
                    content=body or None,
                    extensions={"sni_hostname": host.rstrip(".")},
                )
                incoming = await client.send(outgoing, stream=True)
                try:
                    return await _read(incoming, url, method, limits)
                finally:
                    await incoming.aclose()
            except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
                last = error  # nothing was sent: the next address may do
            except (httpx2.HTTPError, zlib.error) as error:
                raise MidcourseError(
                    f"The request to {url} failed: {type(error).__name__}: {error}.", code="request_failed", url=url
                ) from error
            except (ValueError, TypeError) as error:
                raise bad_argument(f"The request to {url} cannot be sent: {error}.", "headers") from error
    raise MidcourseError(f"No connection to {url}: {last}.", code="no_connection", url=url) from last


async def _read(
    incoming: "httpx2.Response", url: str, method: Method, limits: RequestLimits
) -> "tuple[WebResponse, str | None]":
    import httpx2

    location = incoming.headers.get("location")
    if method in {"GET", "HEAD"} and location is not None and incoming.status_code in {301, 302, 303, 307, 308}:
        try:
            onward = str(httpx2.URL(url).join(location))
        except (httpx2.InvalidURL, ValueError) as error:
            raise refused(url, f"it redirects to {location!r}, which is no address") from error
        return WebResponse(status=incoming.status_code, url=url, headers={}, body=""), onward
    content = bytearray()
    try:
        async with asyncio.timeout(_DROPS if limits.cuts else None):
            await _fill(content, incoming, url, limits.limit)
    except (TimeoutError, httpx2.HTTPError, zlib.error, MidcourseError):
        if not limits.cuts:
            raise
        del content[limits.limit :]
    text, encoding = _decoded_content(bytes(content), incoming.charset_encoding)
    headers = {name: value for name, value in incoming.headers.items() if name != "set-cookie"}
    answer = WebResponse(status=incoming.status_code, url=url, headers=headers, body=text, encoding=encoding)
    return answer, None


async def _fill(content: bytearray, incoming: "httpx2.Response", url: str, limit: int) -> None:
    """Read the body of an answer into ``content``.

    Raises:
        MidcourseError: it has more than ``limit`` bytes, or cannot be unpacked.
    """
    unpack = _unpacking(incoming.headers.get("content-encoding", ""), url)
    async for piece in incoming.aiter_raw():
        content += unpack(piece, limit + 1)
        if len(content) > limit:
            raise too_large(f"The answer of {url}", len(content), limit, "Ask for a part of it.")


def _unpacking(encoding: str, url: str) -> "Callable[[bytes, int], bytes]":
    """Return the decoder for a compressed answer, though none was asked for; its output is limited."""
    match encoding.strip().lower():
        case "" | "identity":
            return lambda piece, _: piece
        case "gzip" | "x-gzip" | "deflate":
            return zlib.decompressobj(wbits=zlib.MAX_WBITS | 32).decompress
        case _:
            raise MidcourseError(
                f"{url} answers in the encoding '{encoding}', though it was asked for none.",
                code="request_failed",
                url=url,
            )


def _decoded_content(content: bytes, charset: str | None) -> "tuple[str, Literal['text', 'base64']]":
    named = charset or "utf-8"
    if _CHARSETS.fullmatch(named):
        try:
            return content.decode(named), "text"
        except (UnicodeDecodeError, LookupError):
            pass
    return base64.b64encode(content).decode(), "base64"


def _parsed(url: str) -> "httpx2.URL":
    import httpx2

    try:
        target = httpx2.URL(url)
        target.raw_host.decode("ascii")
    except (httpx2.InvalidURL, TypeError, ValueError) as error:
        raise refused(url, f"it is no address ({error})") from error
    if target.scheme not in {"http", "https"}:
        raise refused(url, "only http:// and https:// are spoken here")
    if not target.host:
        raise refused(url, "it names no host")
    if target.port is not None and not 0 < target.port < 65536:
        raise refused(url, f"its port is {target.port}, and ports are 1 to 65535")
    try:
        target.raw_host.decode("ascii").encode("idna")
    except UnicodeError as error:
        raise refused(url, "its host is no name: a part of it is empty, or longer than 63 letters") from error
    if target.userinfo:
        raise refused(url, "it holds a user name or a password; put credentials into a header")
    return target


def _origin(url: str) -> tuple[str, str, int | None]:
    parsed = _parsed(url)
    return parsed.scheme, parsed.host, parsed.port


def _checked_headers(headers: Mapping[str, str]) -> dict[str, str]:
    checked = {name.strip().lower(): value for name, value in headers.items()}
    taken = sorted(_NOT_YOURS & checked.keys())
    if taken:
        raise bad_argument(f"The header '{taken[0]}' is set by the tool itself. Leave it out.", "headers")
    return checked


@lru_cache(maxsize=1)
def _certificates() -> ssl.SSLContext:
    """Read once: it takes a twentieth of a second."""
    import httpx2

    return httpx2.create_ssl_context()


def hosts(allowed: Sequence[str] | None) -> tuple[str, ...] | None:
    return None if allowed is None else tuple(sorted(set(allowed)))
