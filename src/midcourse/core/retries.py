"""Decide which failures are worth another attempt, and how long to wait before it. Pure.

No client library is imported here: an error is known by what it carries (a status, headers, a code) and by its class.
"""

import errno
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from math import isfinite
from typing import Any, Final, TypeAlias, cast

from midcourse.errors import InvalidInput, MidcourseError

Errors: TypeAlias = type[Exception] | tuple[type[Exception], ...] | Callable[[Exception], bool]

MOST_ATTEMPTS: Final = 100
_STATUSES: Final = frozenset({408, 409, 425, 429})
_CODES: Final = frozenset(
    {
        "api_error",
        "internal_error",
        "internal_server_error",
        "overloaded",
        "overloaded_error",
        "rate_limit_error",
        "rate_limit_exceeded",
        "requests",
        "server_error",
        "server_overloaded",
        "service_unavailable",
        "timeout",
        "timeout_error",
        "tokens",
    }
)
"""Providers' codes of temporary failures, where a stream reports one without a status."""
_FINAL: Final = frozenset({"billing_error", "insufficient_quota"})
"""Codes that no waiting helps, although their status suggests it."""
_ERRNOS: Final = frozenset(
    {
        errno.EHOSTDOWN,
        errno.EHOSTUNREACH,
        errno.ENETDOWN,
        errno.ENETRESET,
        errno.ENETUNREACH,
        errno.ETIMEDOUT,
    }
)
_CONNECTION: Final[Mapping[str, frozenset[str]]] = {
    "agents": frozenset({"ModelTimeoutError"}),
    "aiohttp": frozenset({"ClientConnectionError", "ClientPayloadError"}),
    "anthropic": frozenset({"APIConnectionError"}),
    "anyio": frozenset({"BrokenResourceError", "EndOfStream"}),
    "asyncio": frozenset({"IncompleteReadError"}),
    "botocore": frozenset({"ConnectionError", "HTTPClientError"}),
    "http": frozenset({"IncompleteRead"}),
    "httpcore": frozenset({"NetworkError", "RemoteProtocolError", "TimeoutException"}),
    "httpx": frozenset({"NetworkError", "ProxyError", "RemoteProtocolError", "TimeoutException"}),
    "openai": frozenset({"APIConnectionError"}),
    "requests": frozenset({"ChunkedEncodingError", "ConnectionError", "Timeout"}),
    "socket": frozenset({"gaierror"}),
    "ssl": frozenset({"SSLEOFError", "SSLZeroReturnError"}),
    "urllib3": frozenset({"HTTPError"}),
    "websockets": frozenset({"ConnectionClosedError"}),
}
"""The classes that say "no connection, or none any more", by the package that has them."""


def is_transient(error: BaseException) -> bool:
    """Return True if an error is temporary: no connection, a time-out, HTTP 408, 409, 425, 429 or 5xx."""
    if isinstance(error, BaseExceptionGroup):
        return any(map(is_transient, cast("BaseExceptionGroup[BaseException]", error).exceptions))
    for one in _chain(error):
        if isinstance(one, MidcourseError):
            return False
        verdict = _verdict(one)
        if verdict is not None:
            return verdict
    return False


def was_answered(error: BaseException) -> bool:
    """Return True if the other side answered: a refused request was not carried out and will not be later."""
    return not is_transient(error) or any(_status(one) is not None for one in _chain(error))


def retry_after(error: BaseException, now: float) -> float | None:
    """Return the seconds that the other side asks to wait, if any. ``now`` is seconds since 1970."""
    for one in _chain(error):
        for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
            told = _seconds(_header(one, name), now, unit)
            if told is not None:
                return told
    return None


@dataclass(frozen=True, slots=True)
class Retry:
    """The rule for retries: how often, when and after which errors.

    There are ``attempts`` in all, the first one included. The first wait is ``first_wait`` seconds, each later one
    ``factor`` times as long, up to ``max_wait``; chance shortens each by up to the share ``jitter``. A ``Retry-After``
    is waited for; one that is longer than ``max_wait`` is a failure. ``errors``: classes, or a function that is given
    the error; else ``is_transient``.
    """

    attempts: int = 5
    first_wait: float = 0.5
    factor: float = 2.0
    max_wait: float = 60.0
    jitter: float = 0.5
    errors: Errors = is_transient

    def __post_init__(self) -> None:
        if not 1 <= self.attempts <= MOST_ATTEMPTS or int(self.attempts) != self.attempts:
            raise InvalidInput(
                f"attempts is {self.attempts}; it is a whole number from 1 (no retry) to {MOST_ATTEMPTS}.",
                field="attempts",
            )
        for name, least, most in (
            ("first_wait", 0, None),
            ("factor", 1, None),
            ("max_wait", 0, None),
            ("jitter", 0, 1),
        ):
            value = cast("float", getattr(self, name))
            if not isfinite(value) or value < least or (most is not None and value > most):
                span = f"from {least} to {most}" if most is not None else f"{least} or more"
                raise InvalidInput(f"{name} is {value}; it is a number, {span}.", field=name)

    def tries_again(self, error: BaseException) -> bool:
        """Return True if this error leads to another attempt, if there is one left. Our own errors never do."""
        if not isinstance(error, Exception) or isinstance(error, MidcourseError):
            return False
        if isinstance(self.errors, type | tuple):
            return isinstance(error, cast("tuple[type[Exception], ...]", self.errors))
        return bool(self.errors(error))

    def wait(self, failures: int, chance: float, told: float | None = None) -> float | None:
        """Seconds to wait after the ``failures``-th failure. None: no attempt is left, or the wait is too long.

        ``chance`` is a number from 0 up to 1, ``told`` what ``retry_after`` found.
        """
        if failures >= self.attempts or (told is not None and told > self.max_wait):
            return None
        planned = self.first_wait
        for _ in range(failures - 1):  # bounded at each turn: the power by itself may be too large for a number
            planned = min(self.max_wait, planned * self.factor)
        planned = round(min(self.max_wait, planned) * (1 - self.jitter * chance), 3)
        return planned if told is None else max(planned, told)


MODEL_RETRY: Final = Retry()
"""The default of a model request: five attempts, within about 8 seconds unless it has to wait."""


def _chain(error: BaseException) -> Iterator[BaseException]:
    """Yield the error and what it was raised from, outermost first."""
    found: BaseException | None = error
    seen: list[BaseException] = []
    while found is not None and not any(found is one for one in seen):
        seen.append(found)
        yield found
        found = found.__cause__


def _verdict(error: BaseException) -> bool | None:
    """Return if one error alone is temporary; None: unknown."""
    should = _header(error, "x-should-retry")
    if should in ("true", "false"):
        return should == "true"
    codes = set(_codes(error))
    if codes & _FINAL:
        return False
    status = _status(error)
    if status is not None:
        return status in _STATUSES or status >= 500
    if codes & _CODES or _is_of_the_connection(error):
        return True
    return None


def _is_of_the_connection(error: BaseException) -> bool:
    if isinstance(error, ConnectionError | TimeoutError):
        return True
    if isinstance(error, OSError) and error.errno in _ERRNOS:
        return True
    reason: object = getattr(error, "reason", None)  # of urllib's URLError
    if isinstance(reason, OSError) and reason is not error and _is_of_the_connection(reason):
        return True
    return any(kind.__name__ in _CONNECTION.get(_package_of(kind), ()) for kind in type(error).__mro__)


def _package_of(kind: type) -> str:
    """Return the package without the number of a second edition, such as httpx2's."""
    return kind.__module__.partition(".")[0].removesuffix("2")


def _status(error: BaseException) -> int | None:
    """Return the HTTP status that an error carries, if it is one of a failure."""
    response: Any = getattr(error, "response", None)
    names = ("status_code", "status", "code")
    found: list[Any] = [getattr(holder, name, None) for holder in (error, response) for name in names]
    if isinstance(response, Mapping):  # botocore's
        about = cast("Mapping[str, Any]", response).get("ResponseMetadata")
        found.append(cast("dict[str, Any]", about).get("HTTPStatusCode") if isinstance(about, dict) else None)
    return next((int(one) for one in found if isinstance(one, int) and 400 <= one < 600), None)


def _codes(error: BaseException) -> Iterator[str]:
    """Yield a provider's codes of the error: in the error itself, and in the body of its answer."""
    for name in ("code", "type"):
        if isinstance(value := getattr(error, name, None), str):
            yield value
    body: object = getattr(error, "body", None)
    while isinstance(body, Mapping):
        told = cast("Mapping[str, object]", body)
        for name in ("code", "type"):
            if isinstance(value := told.get(name), str):
                yield value
        body = told.get("error")


def _header(error: BaseException, name: str) -> str:
    for holder in (getattr(error, "response", None), error):
        headers: Any = getattr(holder, "headers", None)
        get = getattr(headers, "get", None)
        if callable(get):
            value = get(name) or get(name.title())
            if isinstance(value, str):
                return value.strip().lower() if name.startswith("x-") else value.strip()
    return ""


def _seconds(spelled: str, now: float, unit: float) -> float | None:
    """Return a number of seconds, or a date, as a header has it."""
    if not spelled:
        return None
    try:
        seconds = float(spelled) * unit
    except ValueError:
        try:
            seconds = parsedate_to_datetime(spelled).timestamp() - now
        except (ValueError, OverflowError):
            return None
    return max(0.0, seconds) if isfinite(seconds) else None
