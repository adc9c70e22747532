"""Redis as a board. The only module that speaks to it."""

from typing import Any
from urllib.parse import urlsplit

from midcourse.errors import InvalidInput, StoreUnavailable, describe

KINDS = "Use redis://host:6379/0, rediss://… (TLS), or unix:///path/to/socket."


class RedisBoard:
    """Texts under keys of one Redis, or whatever speaks its protocol. It connects when it first writes.

    Raises:
        InvalidInput: the URL names no Redis, or the extra ``redis`` is not installed.
    """

    def __init__(self, url: str) -> None:
        try:
            from redis.asyncio import Redis
            from redis.asyncio.retry import Retry
            from redis.backoff import NoBackoff
            from redis.exceptions import RedisError
        except ImportError as error:
            raise InvalidInput(
                "A checkpoint in Redis needs redis-py, which is not installed: pip install 'midcourse[redis]'.",
                field="redis",
            ) from error
        self.name = _without_secrets(url)
        self._errors = (RedisError, OSError, TimeoutError)
        once = Retry(NoBackoff(), 0)  # who writes decides when to try again
        made: Any = Redis
        try:
            self._client: Any = made.from_url(url, socket_connect_timeout=2.0, socket_timeout=5.0, retry=once)
        except (ValueError, TypeError) as error:
            raise InvalidInput(f"'{self.name}' is no address of a Redis. {KINDS}", field="redis") from error

    async def put(self, key: str, content: bytes, seconds: float | None) -> None:
        """Replace what stands under ``key``, for ``seconds`` or for good.

        Raises:
            StoreUnavailable: Redis cannot be reached, or refuses.
        """
        try:
            await self._client.set(key, content, px=None if seconds is None else max(1, round(1000 * seconds)))
        except self._errors as error:
            words = (describe(error) or type(error).__name__).rstrip(".")
            raise StoreUnavailable(f"Redis at {self.name} does not take it ({words}).") from error

    async def close(self) -> None:
        try:
            await self._client.aclose()
        except self._errors:  # it is gone already
            return


def _without_secrets(url: str) -> str:
    """Return the address without user, password and options."""
    try:
        parts = urlsplit(url)
        where = parts.hostname or ""
        port = f":{parts.port}" if parts.port else ""
    except ValueError:
        return "the given URL"
    return f"{parts.scheme}://{where}{port}{parts.path}" if parts.scheme else "the given URL"
